"""The properties of a broker or controller, with Kafka's names.

Defaults that differ from Kafka's allow a start without a properties file: `node.id` is 1, the process has
both roles, listens on the loopback interface and stores its data in the working directory.
"""

from __future__ import annotations

from ottla.config.definitions import Property, read_table

_NODE = """
node.id                                      int      1          >=0            ro           | Id of this node, unique in the cluster.
broker.id                                    int      -1         -              ro           | Older name of node.id.
process.roles                                list     broker,controller broker,controller ro           | Roles of this process: broker, controller, or both.
broker.rack                                  string   null       -              ro           | Rack of this broker; replicas of a partition are spread over racks.
cluster.id                                   string   null       -              ro           | Cluster id to use when the cluster starts for the first time; generated if not set.
initial.broker.registration.timeout.ms       int      60000      >=1            ro           | Time limit for the first registration with the controller.
broker.heartbeat.interval.ms                 int      2000       >=1            ro           | Interval between heartbeats from a broker to the controller.
broker.session.timeout.ms                    int      9000       >=1            ro           | Time without heartbeats after which the controller fences a broker.
broker.disconnect.grace.ms                   int      300        >=0            ro           | Time a broker has to reconnect to the controller before it is fenced; not a Kafka property.
controlled.shutdown.enable                   bool     true       -              ro   ignored | Whether a broker moves its leaderships away before it stops; Ottla always does.
server.max.startup.time.ms                   long     max        >=1            ro   ignored | Time limit for the start of the process.
background.threads                           int      10         >=1            all  ignored | Number of threads for background tasks.
num.io.threads                               int      8          >=1            all  ignored | Number of threads that handle requests.
num.network.threads                          int      3          >=1            all  ignored | Number of network threads; Ottla serves all connections in one event loop.
num.replica.alter.log.dirs.threads           int      null       >=1            ro   ignored | Number of threads that move replicas between log directories.
num.recovery.threads.per.data.dir            int      2          >=1            all  ignored | Number of recovery threads per log directory at start.
early.start.listeners                        list     null       -              ro   ignored | Listeners that open before the node is ready.
config.providers                             list     ""         -              ro   ignored | Providers for variables in property values; values are used literally.
request.timeout.ms                           int      30000      >=1            ro           | Time limit for a response from another node.
controller.socket.timeout.ms                 int      30000      >=1            ro           | Time limit for a response from the controller.
socket.connection.setup.timeout.ms           long     10000      >=1            ro   ignored | Time limit for opening a connection to another node.
socket.connection.setup.timeout.max.ms       long     30000      >=1            ro   ignored | Upper bound of the connection timeout after repeated failures.
unstable.api.versions.enable                 bool     false      -              ro   ignored | Whether API versions under development are enabled.
unstable.feature.versions.enable             bool     false      -              ro   ignored | Whether feature versions under development are enabled.
"""  # noqa: E501

_NETWORK = """
listeners                                    list     PLAINTEXT://localhost:9092 not-empty      node         | Addresses to listen on, as NAME://host:port.
advertised.listeners                         list     null       not-empty      ro           | Addresses that are sent to clients; defaults to listeners.
listener.security.protocol.map               string   PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL -              node         | Security protocol of each listener name; only PLAINTEXT is supported.
inter.broker.listener.name                   string   null       -              ro           | Listener that brokers use to connect to each other.
security.inter.broker.protocol               string   PLAINTEXT  PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL ro   ignored | Security protocol between brokers.
controller.listener.names                    list     ""         -              ro           | Names of the listeners that serve the controller.
socket.send.buffer.bytes                     int      102400     >=-1           ro           | SO_SNDBUF of connections; -1 uses the system default.
socket.receive.buffer.bytes                  int      -1         >=-1           ro           | SO_RCVBUF of connections; -1 uses the system default.
socket.request.max.bytes                     int      104857600  >=1            ro           | Maximum size of a request.
socket.listen.backlog.size                   int      50         >=1            ro   ignored | Maximum number of connections waiting to be accepted.
max.connections                              int      max        >=0            all          | Maximum number of connections to this broker.
max.connections.per.ip                       int      max        >=0            all          | Maximum number of connections from one IP address.
max.connections.per.ip.overrides             string   ""         -              all          | Exceptions from max.connections.per.ip, as address:count.
max.connection.creation.rate                 int      max        >=0            all  ignored | Maximum number of new connections per second.
connections.max.idle.ms                      long     600000     >=-1           ro           | Idle time after which a connection is closed; -1 disables the limit.
connection.failed.authentication.delay.ms    int      100        >=0            ro   ignored | Delay before a connection is closed after a failed authentication.
queued.max.requests                          int      500        >=1            ro   ignored | Maximum number of queued requests.
queued.max.request.bytes                     long     -1         -              ro           | Memory for large requests over all connections; -1 means a quarter of the machine's memory.
fetch.max.bytes                              int      57671680   >=1024         ro           | Maximum size of a fetch response.
max.incremental.fetch.session.cache.slots    int      1000       >=0            ro           | Maximum number of fetch sessions.
max.request.partition.size.limit             int      2000       >=1            ro           | Maximum number of partitions in a DescribeTopicPartitions response.
"""  # noqa: E501

_QUORUM = """
controller.quorum.voters                     list     ""         -              ro           | Voters of the metadata quorum, as id@host:port.
controller.quorum.bootstrap.servers          list     ""         -              ro           | Addresses for finding the metadata quorum, as host:port.
controller.quorum.election.timeout.ms        int      1000       >=1            ro           | Time limit for an election; afterwards a new one starts.
controller.quorum.fetch.timeout.ms           int      2000       >=1            ro           | Time without a successful fetch from the leader after which a voter starts an election.
controller.quorum.election.backoff.max.ms    int      1000       >=0            ro           | Maximum delay before a new election after a failed one.
controller.quorum.append.linger.ms           int      25         >=0            ro   ignored | Time the quorum leader waits for more records before it writes.
controller.quorum.request.timeout.ms         int      2000       >=1            ro           | Time limit for a response from a voter.
controller.quorum.retry.backoff.ms           int      20         >=0            ro           | Delay before a failed request to a voter is repeated.
controller.quorum.auto.join.enable           bool     false      -              ro           | Whether a controller joins the voters automatically.
controller.quorum.fetch.max.bytes            int      1048576    >=0            ro           | Maximum size of a fetch of the metadata log.
controller.quorum.fetch.snapshot.max.bytes   int      1048576    >=0            ro           | Maximum size of one piece of a fetched snapshot.
controller.performance.sample.period.ms      long     60000      >=100          ro   ignored | Interval between summaries of the controller's performance.
controller.performance.always.log.threshold.ms long     2000       >=0            ro   ignored | Duration from which a controller event is logged.
metadata.log.dir                             string   null       -              ro           | Directory of the metadata log; defaults to the first of log.dirs.
metadata.log.max.record.bytes.between.snapshots long     20971520   >=1            ro           | Bytes of new metadata records after which a snapshot is written.
metadata.log.max.snapshot.interval.ms        long     3600000    >=0            ro           | Maximum time between snapshots of new metadata; 0 disables the limit.
metadata.log.segment.bytes                   int      1073741824 >=8388608      ro           | Maximum size of a segment of the metadata log.
metadata.log.segment.ms                      long     604800000  -              ro           | Age after which a segment of the metadata log is rolled.
metadata.max.retention.bytes                 long     104857600  -              ro           | Maximum size of the metadata log and its snapshots.
metadata.max.retention.ms                    long     604800000  -              ro           | Maximum age of metadata records and snapshots.
metadata.max.idle.interval.ms                int      500        >=0            ro   ignored | Interval at which an idle controller writes a no-op record.
"""  # noqa: E501

_LOG = """
log.dir                                      string   ottla-data not-empty      ro           | Log directory, if log.dirs is not set.
log.dirs                                     list     null       not-empty      ro           | Log directories.
log.dir.failure.timeout.ms                   long     30000      >=1            ro   ignored | Time after which a broker stops if it cannot report a failed log directory.
log.dir.stall.timeout.ms                     long     10000      >=0            ro           | Time after which a log directory whose disk does not answer is reported as offline, until it answers again; 0 for never; not a Kafka property.
log.segment.bytes                            int      1073741824 >=1048576      all          | Default of segment.bytes.
log.roll.ms                                  long     null       >=1            all          | Default of segment.ms.
log.roll.hours                               int      168        >=1            ro           | Default of segment.ms, in hours.
log.roll.jitter.ms                           long     null       >=0            all          | Default of segment.jitter.ms.
log.roll.jitter.hours                        int      0          >=0            ro           | Default of segment.jitter.ms, in hours.
log.retention.ms                             long     null       >=-1           all          | Default of retention.ms.
log.retention.minutes                        int      null       >=-1           ro           | Default of retention.ms, in minutes.
log.retention.hours                          int      168        >=-1           ro           | Default of retention.ms, in hours.
log.retention.bytes                          long     -1         -              all          | Default of retention.bytes.
log.retention.check.interval.ms              long     300000     >=1            ro           | Interval between retention passes.
log.cleanup.policy                           list     delete     compact,delete all          | Default of cleanup.policy.
log.index.size.max.bytes                     int      10485760   >=4            all          | Default of segment.index.bytes.
log.index.interval.bytes                     int      4096       >=0            all          | Default of index.interval.bytes.
log.flush.interval.messages                  long     max        >=1            all          | Default of flush.messages.
log.flush.interval.ms                        long     null       >=0            all          | Default of flush.ms.
log.flush.scheduler.interval.ms              long     max        >=0            ro           | Default of flush.ms if log.flush.interval.ms is not set.
log.flush.offset.checkpoint.interval.ms      int      60000      >=0            ro   ignored | Interval between checkpoints of the recovery points.
log.flush.start.offset.checkpoint.interval.ms int      60000      >=0            ro   ignored | Interval between checkpoints of the log start offsets.
log.segment.delete.delay.ms                  long     60000      >=0            all          | Default of file.delete.delay.ms.
log.initial.task.delay.ms                    long     30000      >=0            ro   ignored | Delay after start before background work on logs begins.
log.preallocate                              bool     false      -              all  ignored | Default of preallocate.
log.message.timestamp.type                   string   CreateTime CreateTime,LogAppendTime all          | Default of message.timestamp.type.
log.message.timestamp.before.max.ms          long     max        >=0            all          | Default of message.timestamp.before.max.ms.
log.message.timestamp.after.max.ms           long     3600000    >=0            all          | Default of message.timestamp.after.max.ms.
log.local.retention.ms                       long     -2         >=-2           all  ignored | Default of local.retention.ms.
log.local.retention.bytes                    long     -2         >=-2           all  ignored | Default of local.retention.bytes.
log.cleaner.enable                           bool     true       -              ro           | Whether topics with cleanup.policy=compact are compacted.
log.cleaner.threads                          int      1          >=0            all          | Number of log cleaner threads; 0 stops compaction.
log.cleaner.io.max.bytes.per.second          double   max        -              all          | Limit on the reads and writes of the log cleaner.
log.cleaner.dedupe.buffer.size               long     134217728  >=1048576      all          | Memory of the log cleaner for keys.
log.cleaner.io.buffer.size                   int      524288     >=0            all          | Memory of the log cleaner for records.
log.cleaner.io.buffer.load.factor            double   0.9        0..1           all          | Maximum load factor of the log cleaner's key buffer.
log.cleaner.backoff.ms                       long     15000      >=0            all          | Delay of the log cleaner when there is nothing to compact.
log.cleaner.min.cleanable.ratio              double   0.5        0..1           all          | Default of min.cleanable.dirty.ratio.
log.cleaner.delete.retention.ms              long     86400000   >=0            all          | Default of delete.retention.ms.
log.cleaner.min.compaction.lag.ms            long     0          >=0            all          | Default of min.compaction.lag.ms.
log.cleaner.max.compaction.lag.ms            long     max        >=1            all          | Default of max.compaction.lag.ms.
cordoned.log.dirs                            list     ""         -              node ignored | Log directories that get no new partitions.
message.max.bytes                            int      1048588    >=0            all          | Default of max.message.bytes.
compression.type                             string   producer   uncompressed,zstd,lz4,snappy,gzip,producer all          | Compression codec of stored batches; producer keeps the producer's codec.
compression.gzip.level                       int      -1         gzip-level     all          | Compression level for compression.type=gzip.
compression.lz4.level                        int      9          1..17          all          | Compression level for compression.type=lz4.
compression.zstd.level                       int      3          -131072..22    all          | Compression level for compression.type=zstd.
min.insync.replicas                          int      1          >=1            all          | Minimum number of in-sync replicas for a write with acks=all.
unclean.leader.election.enable               bool     false      -              all          | Whether an out-of-sync replica may become leader if no in-sync replica is left; data may be lost.
"""  # noqa: E501

_TOPICS = """
auto.create.topics.enable                    bool     true       -              ro           | Whether a topic is created when a client first requests it.
delete.topic.enable                          bool     true       -              ro           | Whether topics can be deleted.
num.partitions                               int      1          >=1            ro           | Default number of partitions of a new topic.
default.replication.factor                   int      1          >=1            ro           | Default replication factor of a new topic.
create.topic.policy.class.name               class    null       -              ro   ignored | Policy class for CreateTopics; policy classes are not supported.
alter.config.policy.class.name               class    null       -              ro   ignored | Policy class for AlterConfigs; policy classes are not supported.
replica.lag.time.max.ms                      long     30000      >=1            ro           | Time after which a follower that is not caught up leaves the ISR.
replica.socket.timeout.ms                    int      30000      >=1            ro           | Time limit for a response to a follower's fetch.
replica.socket.receive.buffer.bytes          int      65536      >=-1           ro   ignored | SO_RCVBUF of a follower's connection.
replica.fetch.max.bytes                      int      1048576    >=0            ro           | Maximum bytes per partition in a follower's fetch.
replica.fetch.wait.max.ms                    int      500        >=0            ro           | Maximum time a follower's fetch waits at the leader.
replica.fetch.min.bytes                      int      1          >=0            ro           | Bytes for which a follower's fetch waits at the leader.
replica.fetch.backoff.ms                     int      1000       >=0            ro           | Delay of a follower after a failed fetch.
replica.fetch.response.max.bytes             int      10485760   >=0            ro           | Maximum size of the response to a follower's fetch.
replica.high.watermark.checkpoint.interval.ms long     5000       >=1            ro           | Interval between checkpoints of the high watermarks.
replica.selector.class                       string   null       -              ro           | Replica selector for consumers; the rack-aware selector of Kafka is supported.
num.replica.fetchers                         int      1          >=1            all  ignored | Number of fetchers per leader.
follower.fetch.last.tiered.offset.enable     bool     false      -              all  ignored | Whether a new follower starts after the tiered data.
auto.leader.rebalance.enable                 bool     true       -              ro           | Whether leadership is moved back to preferred replicas automatically.
leader.imbalance.per.broker.percentage       int      10         >=1            ro           | Share of leaders on non-preferred replicas from which leadership is moved back.
leader.imbalance.check.interval.seconds      long     300        >=1            ro           | Interval between checks of the leader imbalance.
unclean.leader.election.interval.ms          long     300000     >=1            ro           | Interval between checks for partitions that need an unclean leader election.
fetch.purgatory.purge.interval.requests      int      1000       -              ro   ignored | Purge interval of the fetch purgatory.
producer.purgatory.purge.interval.requests   int      1000       -              ro   ignored | Purge interval of the producer purgatory.
delete.records.purgatory.purge.interval.requests int      1          -              ro   ignored | Purge interval of the delete-records purgatory.
quota.window.num                             int      11         >=1            ro   ignored | Number of samples for client quotas.
quota.window.size.seconds                    int      1          >=1            ro   ignored | Length of a sample for client quotas.
controller.quota.window.num                  int      11         >=1            ro   ignored | Number of samples for controller mutation quotas.
controller.quota.window.size.seconds         int      1          >=1            ro   ignored | Length of a sample for controller mutation quotas.
replication.quota.window.num                 int      11         >=1            ro   ignored | Number of samples for replication quotas.
replication.quota.window.size.seconds        int      1          >=1            ro   ignored | Length of a sample for replication quotas.
alter.log.dirs.replication.quota.window.num  int      11         >=1            ro   ignored | Number of samples for the quota on moves between log directories.
alter.log.dirs.replication.quota.window.size.seconds int      1          >=1            ro   ignored | Length of a sample for the quota on moves between log directories.
client.quota.callback.class                  class    null       -              ro   ignored | Callback class for client quotas; callback classes are not supported.
leader.replication.throttled.rate            long     max        >=0            all          | Maximum bytes per second that this broker sends to throttled replicas.
follower.replication.throttled.rate          long     max        >=0            all          | Maximum bytes per second that this broker fetches for throttled replicas.
replica.alter.log.dirs.io.max.bytes.per.second long     max        >=0            all  ignored | Maximum bytes per second for moves between log directories.
metric.reporters                             list     ""         -              all  ignored | Metrics reporter classes.
metrics.num.samples                          int      2          >=1            ro   ignored | Number of samples for metrics.
metrics.sample.window.ms                     long     30000      >=1            ro   ignored | Length of a sample for metrics.
metrics.recording.level                      string   INFO       INFO,DEBUG,TRACE ro   ignored | Recording level of metrics.
telemetry.max.bytes                          int      1048576    >=1            ro   ignored | Maximum size of client metrics that are pushed to the broker.
"""  # noqa: E501

_properties: dict[str, Property] | None = None


def broker_tables() -> dict[str, str]:
    """The tables of definitions by subject."""
    from ottla.config.coordinators import COORDINATOR_TABLE
    from ottla.config.security import SECURITY_TABLE

    return {
        "Node": _NODE,
        "Listeners and connections": _NETWORK,
        "Metadata quorum": _QUORUM,
        "Logs": _LOG,
        "Topics, replication, quotas and metrics": _TOPICS,
        "Groups, offsets and transactions": COORDINATOR_TABLE,
        "Security and tiered storage": SECURITY_TABLE,
    }


def broker_properties() -> dict[str, Property]:
    """Every broker property, by name."""
    global _properties  # noqa: PLW0603  (parsed once, when the first configuration is loaded)
    if _properties is None:
        _properties = read_table("".join(broker_tables().values()))
    return _properties

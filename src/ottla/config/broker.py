"""The properties of a broker and controller process, under Kafka's names.

What differs from Kafka's defaults is meant for a node that is started without any file: `node.id` is 1, both
roles run in the process, it listens on the loopback interface and keeps its data in the working directory.
"""

from __future__ import annotations

from ottla.config.definitions import Property, read_table

_NODE = """
node.id                              int    1           >=0            ro   | Id of this node, unique in the cluster.
broker.id                            int    -1          -              ro   | Old name of node.id.
process.roles                        list   broker,controller broker,controller ro | What this process is: broker, controller or both.
broker.rack                          string null        -              ro   | Where the broker stands; replicas are spread over racks.
cluster.id                           string null        -              ro   | Id for a cluster that is started for the first time.
initial.broker.registration.timeout.ms int  60000       >=1            ro   | How long the first registration may take.
broker.heartbeat.interval.ms         int    2000        >=1            ro   | Time between heartbeats of a broker to the controller.
broker.session.timeout.ms            int    9000        >=1            ro   | Silence after which the controller fences a broker.
broker.disconnect.grace.ms           int    300         >=0            ro   | Time for a broker to come back before it is fenced when its connection to the controller is lost.
controlled.shutdown.enable           bool   true        -              ro   | Hand leadership over before stopping.
server.max.startup.time.ms           long   max         >=1            ro   | Longest time to become ready.
background.threads                   int    10          >=1            all  | Threads for background work.
num.io.threads                       int    8           >=1            all  | Threads for blocking work.
num.network.threads                  int    3           >=1            all  | Accepted for compatibility: one loop serves all connections.
num.replica.alter.log.dirs.threads   int    null        >=1            ro   | Threads that move replicas between directories.
num.recovery.threads.per.data.dir    int    2           >=1            all  | Threads per directory for recovery at start.
early.start.listeners                list   null        -              ro   | Listeners opened before the node is ready.
config.providers                     list   ""          -              ro   | Accepted for compatibility; values are taken as they stand.
request.timeout.ms                   int    30000       >=1            ro   | Longest wait for an answer of another node.
controller.socket.timeout.ms         int    30000       >=1            ro   | Longest wait for an answer of the controller.
socket.connection.setup.timeout.ms   long   10000       >=1            ro   | Longest wait for a connection to another node.
socket.connection.setup.timeout.max.ms long 30000       >=1            ro   | Bound of that wait after retries.
unstable.api.versions.enable         bool   false       -              ro   | Offer versions of APIs that are not final.
unstable.feature.versions.enable     bool   false       -              ro   | Offer versions of features that are not final.
"""  # noqa: E501

_NETWORK = """
listeners                            list   PLAINTEXT://localhost:9092 not-empty node | Addresses to listen on, NAME://host:port.
advertised.listeners                 list   null        not-empty      ro   | Addresses that clients are told; listeners if not set.
listener.security.protocol.map       string PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL - node | Security protocol of each listener.
inter.broker.listener.name           string null        -              ro   | Listener that brokers use among themselves.
security.inter.broker.protocol       string PLAINTEXT   PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL ro | Security protocol among brokers.
controller.listener.names            list   ""          -              ro   | Listeners that belong to the controller.
socket.send.buffer.bytes             int    102400      >=-1           ro   | SO_SNDBUF of connections; -1 leaves it to the system.
socket.receive.buffer.bytes          int    -1          >=-1           ro   | SO_RCVBUF of connections; -1 leaves it to the system.
socket.request.max.bytes             int    104857600   >=1            ro   | Largest request that is read.
socket.listen.backlog.size           int    50          >=1            ro   | Connections waiting to be accepted.
max.connections                      int    max         >=0            all  | Connections of this broker.
max.connections.per.ip               int    max         >=0            all  | Connections from one address.
max.connections.per.ip.overrides     string ""          -              all  | Other limits for some addresses, address:count.
max.connection.creation.rate         int    max         >=0            all  | New connections per second.
connections.max.idle.ms              long   600000      >=-1           ro   | Idle time after which a connection is closed; -1 is never.
connection.failed.authentication.delay.ms int 100       >=0            ro   | Wait before closing after a failed authentication.
queued.max.requests                  int    500         >=1            ro   | Requests of one connection in work before reading stops.
queued.max.request.bytes             long   -1          -              ro   | Memory for large requests of all connections; -1 is a quarter of the machine's.
fetch.max.bytes                      int    57671680    >=1024         ro   | Largest answer to a fetch.
max.incremental.fetch.session.cache.slots int 1000      >=0            ro   | Fetch sessions that are kept.
max.request.partition.size.limit     int    2000        >=1            ro   | Partitions in one answer of DescribeTopicPartitions.
"""  # noqa: E501

_QUORUM = """
controller.quorum.voters             list   ""          -              ro   | Voters of the quorum, id@host:port.
controller.quorum.bootstrap.servers  list   ""          -              ro   | Where to find the quorum, host:port.
controller.quorum.election.timeout.ms int   1000        >=1            ro   | Time without a leader before an election.
controller.quorum.fetch.timeout.ms   int    2000        >=1            ro   | Time without an answer of the leader before an election.
controller.quorum.election.backoff.max.ms int 1000      >=0            ro   | Longest wait between elections.
controller.quorum.append.linger.ms   int    25          >=0            ro   | Time the leader gathers records before writing.
controller.quorum.request.timeout.ms int    2000        >=1            ro   | Longest wait for an answer of a voter.
controller.quorum.retry.backoff.ms   int    20          >=0            ro   | Wait before asking a voter again.
controller.quorum.auto.join.enable   bool   false       -              ro   | Join the voters by itself.
controller.quorum.fetch.max.bytes    int    1048576     >=0            ro   | Largest fetch of the metadata log.
controller.quorum.fetch.snapshot.max.bytes int 1048576  >=0            ro   | Largest piece of a snapshot.
controller.performance.sample.period.ms long 60000      >=100          ro   | Period over which the controller's work is summed up.
controller.performance.always.log.threshold.ms long 2000 >=0           ro   | Events of the controller slower than this are logged.
metadata.log.dir                     string null        -              ro   | Directory of the metadata log; the first of log.dirs if not set.
metadata.log.max.record.bytes.between.snapshots long 20971520 >=1      ro   | Bytes of new metadata after which a snapshot is taken.
metadata.log.max.snapshot.interval.ms long  3600000     >=0            ro   | Time after which a snapshot is taken; 0 is none.
metadata.log.segment.bytes           int    1073741824  >=8388608      ro   | Size of a segment of the metadata log.
metadata.log.segment.ms              long   604800000   -              ro   | Age at which a segment of the metadata log is closed.
metadata.max.retention.bytes         long   104857600   -              ro   | Size of metadata log and snapshots kept.
metadata.max.retention.ms            long   604800000   -              ro   | Age of metadata log and snapshots kept.
metadata.max.idle.interval.ms        int    500         >=0            ro   | Time after which an idle controller writes an empty record.
"""  # noqa: E501

_LOG = """
log.dir                              string ottla-data  not-empty      ro   | Directory of the data, if log.dirs is not set.
log.dirs                             list   null        not-empty      ro   | Directories of the data.
log.dir.failure.timeout.ms           long   30000       >=1            ro   | Time to report a failed directory before giving up.
log.segment.bytes                    int    1073741824  >=1048576      all  | Default of segment.bytes.
log.roll.ms                          long   null        >=1            all  | Default of segment.ms.
log.roll.hours                       int    168         >=1            ro   | Default of segment.ms, in hours.
log.roll.jitter.ms                   long   null        >=0            all  | Default of segment.jitter.ms.
log.roll.jitter.hours                int    0           >=0            ro   | Default of segment.jitter.ms, in hours.
log.retention.ms                     long   null        >=-1           all  | Default of retention.ms.
log.retention.minutes                int    null        >=-1           ro   | Default of retention.ms, in minutes.
log.retention.hours                  int    168         >=-1           ro   | Default of retention.ms, in hours.
log.retention.bytes                  long   -1          -              all  | Default of retention.bytes.
log.retention.check.interval.ms      long   300000      >=1            ro   | Time between looks for segments to delete.
log.cleanup.policy                   list   delete      compact,delete all  | Default of cleanup.policy.
log.index.size.max.bytes             int    10485760    >=4            all  | Default of segment.index.bytes.
log.index.interval.bytes             int    4096        >=0            all  | Default of index.interval.bytes.
log.flush.interval.messages          long   max         >=1            all  | Default of flush.messages.
log.flush.interval.ms                long   null        >=0            all  | Default of flush.ms.
log.flush.scheduler.interval.ms      long   max         >=0            ro   | Default of flush.ms when log.flush.interval.ms is not set.
log.flush.offset.checkpoint.interval.ms int 60000       >=0            ro   | Time between writes of the recovery points.
log.flush.start.offset.checkpoint.interval.ms int 60000 >=0            ro   | Time between writes of the log start offsets.
log.segment.delete.delay.ms          long   60000       >=0            all  | Default of file.delete.delay.ms.
log.initial.task.delay.ms            long   30000       >=0            ro   | Wait after start before background work on logs.
log.preallocate                      bool   false       -              all  | Default of preallocate.
log.message.timestamp.type           string CreateTime  CreateTime,LogAppendTime all | Default of message.timestamp.type.
log.message.timestamp.before.max.ms  long   max         >=0            all  | Default of message.timestamp.before.max.ms.
log.message.timestamp.after.max.ms   long   3600000     >=0            all  | Default of message.timestamp.after.max.ms.
log.local.retention.ms               long   -2          >=-2           all  | Default of local.retention.ms.
log.local.retention.bytes            long   -2          >=-2           all  | Default of local.retention.bytes.
log.cleaner.enable                   bool   true        -              ro   | Compact topics that ask for it.
log.cleaner.threads                  int    1           >=0            all  | Threads that compact.
log.cleaner.io.max.bytes.per.second  double max         -              all  | Limit on reading and writing by compaction.
log.cleaner.dedupe.buffer.size       long   134217728   >=1048576      all  | Memory for keys while compacting.
log.cleaner.io.buffer.size           int    524288      >=0            all  | Memory for records while compacting.
log.cleaner.io.buffer.load.factor    double 0.9         0..1           all  | How full the memory for keys may get.
log.cleaner.backoff.ms               long   15000       >=0            all  | Wait when there is nothing to compact.
log.cleaner.min.cleanable.ratio      double 0.5         0..1           all  | Default of min.cleanable.dirty.ratio.
log.cleaner.delete.retention.ms      long   86400000    >=0            all  | Default of delete.retention.ms.
log.cleaner.min.compaction.lag.ms    long   0           >=0            all  | Default of min.compaction.lag.ms.
log.cleaner.max.compaction.lag.ms    long   max         >=1            all  | Default of max.compaction.lag.ms.
cordoned.log.dirs                    list   ""          -              node | Directories that get no new partitions.
message.max.bytes                    int    1048588     >=0            all  | Default of max.message.bytes.
compression.type                     string producer    uncompressed,zstd,lz4,snappy,gzip,producer all | Default of the topic's.
compression.gzip.level               int    -1          gzip-level     all  | Default of the topic's.
compression.lz4.level                int    9           1..17          all  | Default of the topic's.
compression.zstd.level               int    3           -131072..22    all  | Default of the topic's.
min.insync.replicas                  int    1           >=1            all  | Default of the topic's.
unclean.leader.election.enable       bool   false       -              all  | Default of the topic's.
"""  # noqa: E501

_TOPICS = """
auto.create.topics.enable            bool   true        -              ro   | Create a topic when a client first asks for it.
delete.topic.enable                  bool   true        -              ro   | Allow topics to be deleted.
num.partitions                       int    1           >=1            ro   | Partitions of a topic created without a number.
default.replication.factor           int    1           >=1            ro   | Replicas of a topic created without a number.
create.topic.policy.class.name       class  null        -              ro   | Accepted for compatibility: there are no policy classes.
alter.config.policy.class.name       class  null        -              ro   | Accepted for compatibility: there are no policy classes.
replica.lag.time.max.ms              long   30000       >=1            ro   | Time after which a lagging follower leaves the ISR.
replica.socket.timeout.ms            int    30000       >=1            ro   | Longest wait of a follower for its leader.
replica.socket.receive.buffer.bytes  int    65536       >=-1           ro   | SO_RCVBUF of a follower's connection.
replica.fetch.max.bytes              int    1048576     >=0            ro   | Bytes of one partition in a follower's fetch.
replica.fetch.wait.max.ms            int    500         >=0            ro   | Longest wait of a follower's fetch at the leader.
replica.fetch.min.bytes              int    1           >=0            ro   | Bytes that answer a follower's fetch at once.
replica.fetch.backoff.ms             int    1000        >=0            ro   | Wait of a follower after an error.
replica.fetch.response.max.bytes     int    10485760    >=0            ro   | Bytes of a follower's whole fetch.
replica.high.watermark.checkpoint.interval.ms long 5000 >=1            ro   | Time between writes of the high watermarks.
replica.selector.class               string null        -              ro   | How consumers are sent to near replicas.
num.replica.fetchers                 int    1           >=1            all  | Fetches in parallel to one leader.
follower.fetch.last.tiered.offset.enable bool false     -              all  | A new follower starts behind the tiered data.
auto.leader.rebalance.enable         bool   true        -              ro   | Give leadership back to preferred replicas.
leader.imbalance.per.broker.percentage int 10          >=1            ro   | Share of misplaced leadership from which on it is given back.
leader.imbalance.check.interval.seconds long 300        >=1            ro   | Time between looks for such leadership.
unclean.leader.election.interval.ms  long   300000      >=1            ro   | Time between looks for partitions without a leader.
fetch.purgatory.purge.interval.requests int 1000        -              ro   | Accepted for compatibility.
producer.purgatory.purge.interval.requests int 1000     -              ro   | Accepted for compatibility.
delete.records.purgatory.purge.interval.requests int 1  -              ro   | Accepted for compatibility.
quota.window.num                     int    11          >=1            ro   | Samples kept for client quotas.
quota.window.size.seconds            int    1           >=1            ro   | Length of a sample for client quotas.
controller.quota.window.num          int    11          >=1            ro   | Samples kept for controller quotas.
controller.quota.window.size.seconds int    1           >=1            ro   | Length of a sample for controller quotas.
replication.quota.window.num         int    11          >=1            ro   | Samples kept for replication quotas.
replication.quota.window.size.seconds int   1           >=1            ro   | Length of a sample for replication quotas.
alter.log.dirs.replication.quota.window.num int 11      >=1            ro   | Samples kept for moves between directories.
alter.log.dirs.replication.quota.window.size.seconds int 1 >=1         ro   | Length of a sample for moves between directories.
client.quota.callback.class          class  null        -              ro   | Accepted for compatibility: there are no callback classes.
leader.replication.throttled.rate    long   max         >=0            all  | Bytes per second from throttled leaders.
follower.replication.throttled.rate  long   max         >=0            all  | Bytes per second to throttled followers.
replica.alter.log.dirs.io.max.bytes.per.second long max >=0            all  | Bytes per second between directories.
metric.reporters                     list   ""          -              all  | Accepted for compatibility.
metrics.num.samples                  int    2           >=1            ro   | Samples kept for metrics.
metrics.sample.window.ms             long   30000       >=1            ro   | Length of a sample for metrics.
metrics.recording.level              string INFO        INFO,DEBUG,TRACE ro | How much is measured.
telemetry.max.bytes                  int    1048576     >=1            ro   | Largest push of client metrics.
"""  # noqa: E501

_properties: dict[str, Property] | None = None


def broker_properties() -> dict[str, Property]:
    """Every property of a node, by name."""
    global _properties  # noqa: PLW0603  (read once, when the first configuration is loaded)
    if _properties is None:
        from ottla.config.coordinators import COORDINATOR_TABLE
        from ottla.config.security import SECURITY_TABLE

        tables = (_NODE, _NETWORK, _QUORUM, _LOG, _TOPICS, COORDINATOR_TABLE, SECURITY_TABLE)
        _properties = read_table("".join(tables))
    return _properties

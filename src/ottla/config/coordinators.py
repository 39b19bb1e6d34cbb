"""The broker's properties for groups, offsets, transactions and share groups."""

from __future__ import annotations

COORDINATOR_TABLE = """
offsets.topic.num.partitions         int    50          >=1            ro   | Partitions of the topic of committed offsets.
offsets.topic.replication.factor     short  3           >=1            ro   | Its replicas; fewer in a smaller cluster unless set.
offsets.topic.segment.bytes          int    104857600   >=1            ro   | Its segment size.
offsets.topic.compression.codec      int    0           0..4           ro   | Codec of offset commits: 0 is none.
offsets.load.buffer.size             int    5242880     >=1            ro   | Accepted for compatibility.
offsets.commit.timeout.ms            int    5000        >=1            ro   | Longest wait for an offset commit.
offsets.retention.minutes            int    10080       >=1            ro   | How long offsets of an empty group are kept.
offsets.retention.check.interval.ms  long   600000      >=1            ro   | Time between looks for offsets to drop.
offset.metadata.max.bytes            int    4096        >=0            ro   | Largest note beside a committed offset.
group.coordinator.rebalance.protocols list  classic,consumer,streams,share classic,consumer,streams,share ro | Group protocols on offer.
group.coordinator.append.linger.ms   int    -1          >=-1           ro   | Accepted for compatibility: what one turn decides is written together.
group.coordinator.threads            int    4           >=1            ro   | Accepted for compatibility.
group.coordinator.background.threads int    2           >=1            ro   | Accepted for compatibility.
group.coordinator.cached.buffer.max.bytes int 1048588   >=524288       all  | Accepted for compatibility.
group.min.session.timeout.ms         int    6000        >=0            ro   | Shortest session of a classic member.
group.max.session.timeout.ms         int    1800000     >=0            ro   | Longest session of a classic member.
group.initial.rebalance.delay.ms     int    3000        >=0            ro   | Wait for more members before the first rebalance.
group.max.size                       int    max         >=1            ro   | Members of one classic group.
group.consumer.session.timeout.ms    int    45000       >=1            all  | Session of a consumer group's member.
group.consumer.min.session.timeout.ms int   45000       >=1            ro   | Its shortest value for a group.
group.consumer.max.session.timeout.ms int   60000       >=1            ro   | Its longest value for a group.
group.consumer.heartbeat.interval.ms int    5000        >=1            all  | Time between heartbeats of a member.
group.consumer.min.heartbeat.interval.ms int 5000       >=1            ro   | Its shortest value for a group.
group.consumer.max.heartbeat.interval.ms int 15000      >=1            ro   | Its longest value for a group.
group.consumer.max.size              int    max         >=1            ro   | Members of one consumer group.
group.consumer.assignors             list   uniform,range not-empty    ro   | Ways to spread partitions, the first is the default.
group.consumer.migration.policy      string bidirectional disabled,upgrade,downgrade,bidirectional ro | May groups change their protocol.
group.consumer.assignment.interval.ms int   1000        >=0            all  | Least time between two assignments of a group.
group.consumer.min.assignment.interval.ms int 0         >=0            ro   | Its shortest value for a group.
group.consumer.max.assignment.interval.ms int 15000     >=0            ro   | Its longest value for a group.
group.consumer.regex.refresh.interval.ms int 600000     >=10000        ro   | Accepted for compatibility: patterns look when topics change.
group.share.max.size                 int    200         >=1            ro   | Members of one share group.
group.share.session.timeout.ms       int    45000       >=1            all  | Session of a share group's member.
group.share.min.session.timeout.ms   int    45000       >=1            ro   | Its shortest value for a group.
group.share.max.session.timeout.ms   int    60000       >=1            ro   | Its longest value for a group.
group.share.heartbeat.interval.ms    int    5000        >=1            all  | Time between heartbeats of a member.
group.share.min.heartbeat.interval.ms int   5000        >=1            ro   | Its shortest value for a group.
group.share.max.heartbeat.interval.ms int   15000       >=1            ro   | Its longest value for a group.
group.share.assignors                list   simple      not-empty      ro   | Ways to spread partitions in share groups.
group.share.partition.max.record.locks int  2000        >=100          ro   | Records of one partition handed out at a time.
group.share.delivery.count.limit     int    5           2..10          ro   | Deliveries of a record before it is given up.
group.share.record.lock.duration.ms  int    30000       >=1000         ro   | Time a member has for a record.
group.share.min.record.lock.duration.ms int 15000       >=1000         ro   | Its shortest value for a group.
group.share.max.record.lock.duration.ms int 60000       >=1000         ro   | Its longest value for a group.
group.share.max.share.sessions       int    2000        >=1            ro   | Share sessions that are kept.
group.streams.session.timeout.ms     int    45000       >=1            all  | Session of a streams group's member.
group.streams.heartbeat.interval.ms  int    5000        >=1            all  | Time between heartbeats of a member.
group.streams.max.size               int    max         >=1            ro   | Members of one streams group.
group.streams.num.standby.replicas   int    0           >=0            ro   | Warm copies of a task's state.
share.coordinator.state.topic.num.partitions int 50     >=1            ro   | Partitions of the topic of share group state.
share.coordinator.state.topic.replication.factor short 3 >=1           ro   | Its replicas; fewer in a smaller cluster unless set.
share.coordinator.state.topic.min.isr short 2           >=1            ro   | Its min.insync.replicas.
share.coordinator.state.topic.segment.bytes int 104857600 >=1          ro   | Its segment size.
share.coordinator.write.timeout.ms   int    5000        >=1            ro   | Longest wait for a write of share group state.
transaction.state.log.num.partitions int    50          >=1            ro   | Partitions of the topic of transactions.
transaction.state.log.replication.factor short 3        >=1            ro   | Its replicas; fewer in a smaller cluster unless set.
transaction.state.log.min.isr        int    2           >=1            ro   | Its min.insync.replicas.
transaction.state.log.segment.bytes  int    104857600   >=1            ro   | Its segment size.
transaction.state.log.load.buffer.size int  5242880     >=1            ro   | Bytes read at once while loading transactions.
transaction.max.timeout.ms           int    900000      >=1            ro   | Longest transaction.
transactional.id.expiration.ms       int    604800000   >=1            ro   | Idle time after which a transactional id is forgotten.
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 >=1 ro | Time between looks for overdue transactions.
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 >=1 ro | Time between looks for forgotten ids.
transaction.partition.verification.enable bool true     -              all  | Check that a partition was added to its transaction.
transaction.two.phase.commit.enable  bool   false       -              ro   | Allow transactions prepared by others.
add.partitions.to.txn.retry.backoff.ms int  20          >=1            ro   | Wait before adding a partition again.
add.partitions.to.txn.retry.backoff.max.ms int 100      >=0            ro   | Longest such wait.
producer.id.expiration.ms            int    86400000    >=1            all  | Idle time after which a producer's sequence is forgotten.
producer.id.expiration.check.interval.ms int 600000     >=1            ro   | Time between looks for such producers.
"""  # noqa: E501

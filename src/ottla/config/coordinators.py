"""Broker properties for groups, offsets, transactions and share groups."""

from __future__ import annotations

COORDINATOR_TABLE = """
offsets.topic.num.partitions                 int      50         >=1            ro           | Number of partitions of __consumer_offsets.
offsets.topic.replication.factor             short    3          >=1            ro           | Replication factor of __consumer_offsets; reduced to the number of brokers unless set.
offsets.topic.segment.bytes                  int      104857600  >=1            ro           | segment.bytes of __consumer_offsets.
offsets.topic.compression.codec              int      0          0..4           ro           | Compression codec of __consumer_offsets; 0 is none.
offsets.load.buffer.size                     int      5242880    >=1            ro   ignored | Read size while offsets are loaded.
offsets.commit.timeout.ms                    int      5000       >=1            ro           | Time limit for writing an offset commit.
offsets.retention.minutes                    int      10080      >=1            ro           | Time the offsets of an empty group are kept, in minutes.
offsets.retention.check.interval.ms          long     600000     >=1            ro           | Interval between checks for expired offsets.
offset.metadata.max.bytes                    int      4096       >=0            ro           | Maximum size of the metadata of a committed offset.
group.coordinator.rebalance.protocols        list     classic,consumer,streams,share classic,consumer,streams,share ro           | Enabled group protocols; share and streams are not supported.
group.coordinator.append.linger.ms           int      -1         >=-1           ro   ignored | Time the group coordinator waits for more records before it writes.
group.coordinator.threads                    int      4          >=1            ro   ignored | Number of group coordinator threads.
group.coordinator.background.threads         int      2          >=1            ro   ignored | Number of background threads of the group coordinator.
group.coordinator.cached.buffer.max.bytes    int      1048588    >=524288       all  ignored | Maximum size of a buffer that the group coordinator reuses.
group.min.session.timeout.ms                 int      6000       >=0            ro           | Minimum session timeout of a classic group member.
group.max.session.timeout.ms                 int      1800000    >=0            ro           | Maximum session timeout of a classic group member.
group.initial.rebalance.delay.ms             int      3000       >=0            ro           | Time the coordinator waits for more members before the first rebalance of a classic group.
group.max.size                               int      max        >=1            ro           | Maximum number of members of a classic group.
group.consumer.session.timeout.ms            int      45000      >=1            all          | Session timeout of consumer group members.
group.consumer.min.session.timeout.ms        int      45000      >=1            ro           | Minimum of a group's consumer.session.timeout.ms.
group.consumer.max.session.timeout.ms        int      60000      >=1            ro           | Maximum of a group's consumer.session.timeout.ms.
group.consumer.heartbeat.interval.ms         int      5000       >=1            all          | Heartbeat interval of consumer group members.
group.consumer.min.heartbeat.interval.ms     int      5000       >=1            ro           | Minimum of a group's consumer.heartbeat.interval.ms.
group.consumer.max.heartbeat.interval.ms     int      15000      >=1            ro           | Maximum of a group's consumer.heartbeat.interval.ms.
group.consumer.max.size                      int      max        >=1            ro           | Maximum number of members of a consumer group.
group.consumer.assignors                     list     uniform,range not-empty      ro           | Server-side assignors; the first one is the default.
group.consumer.migration.policy              string   bidirectional disabled,upgrade,downgrade,bidirectional ro           | Which conversions between classic and consumer groups are allowed.
group.consumer.assignment.interval.ms        int      1000       >=0            all          | Minimum time between two assignments of a consumer group.
group.consumer.min.assignment.interval.ms    int      0          >=0            ro           | Minimum of a group's consumer.assignment.interval.ms.
group.consumer.max.assignment.interval.ms    int      15000      >=0            ro           | Maximum of a group's consumer.assignment.interval.ms.
group.consumer.regex.refresh.interval.ms     int      600000     >=10000        ro   ignored | Interval at which subscription patterns are resolved; Ottla resolves them when topics change.
group.share.max.size                         int      200        >=1            ro   ignored | Maximum number of members of a share group.
group.share.session.timeout.ms               int      45000      >=1            all  ignored | Session timeout of share group members.
group.share.min.session.timeout.ms           int      45000      >=1            ro   ignored | Minimum session timeout of share group members.
group.share.max.session.timeout.ms           int      60000      >=1            ro   ignored | Maximum session timeout of share group members.
group.share.heartbeat.interval.ms            int      5000       >=1            all  ignored | Heartbeat interval of share group members.
group.share.min.heartbeat.interval.ms        int      5000       >=1            ro   ignored | Minimum heartbeat interval of share group members.
group.share.max.heartbeat.interval.ms        int      15000      >=1            ro   ignored | Maximum heartbeat interval of share group members.
group.share.assignors                        list     simple     not-empty      ro   ignored | Server-side assignors of share groups.
group.share.partition.max.record.locks       int      2000       >=100          ro   ignored | Maximum number of in-flight records per share partition.
group.share.delivery.count.limit             int      5          2..10          ro   ignored | Maximum number of delivery attempts of a record in a share group.
group.share.record.lock.duration.ms          int      30000      >=1000         ro   ignored | Time a share group member has to acknowledge a record.
group.share.min.record.lock.duration.ms      int      15000      >=1000         ro   ignored | Minimum record lock duration of a share group.
group.share.max.record.lock.duration.ms      int      60000      >=1000         ro   ignored | Maximum record lock duration of a share group.
group.share.max.share.sessions               int      2000       >=1            ro   ignored | Maximum number of share sessions.
group.streams.session.timeout.ms             int      45000      >=1            all  ignored | Session timeout of streams group members.
group.streams.heartbeat.interval.ms          int      5000       >=1            all  ignored | Heartbeat interval of streams group members.
group.streams.max.size                       int      max        >=1            ro   ignored | Maximum number of members of a streams group.
group.streams.num.standby.replicas           int      0          >=0            ro   ignored | Number of standby replicas per task in a streams group.
share.coordinator.state.topic.num.partitions int      50         >=1            ro   ignored | Number of partitions of __share_group_state.
share.coordinator.state.topic.replication.factor short    3          >=1            ro   ignored | Replication factor of __share_group_state.
share.coordinator.state.topic.min.isr        short    2          >=1            ro   ignored | min.insync.replicas of __share_group_state.
share.coordinator.state.topic.segment.bytes  int      104857600  >=1            ro   ignored | segment.bytes of __share_group_state.
share.coordinator.write.timeout.ms           int      5000       >=1            ro   ignored | Time limit for writing share group state.
transaction.state.log.num.partitions         int      50         >=1            ro           | Number of partitions of __transaction_state.
transaction.state.log.replication.factor     short    3          >=1            ro           | Replication factor of __transaction_state; reduced to the number of brokers unless set.
transaction.state.log.min.isr                int      2          >=1            ro           | min.insync.replicas of __transaction_state.
transaction.state.log.segment.bytes          int      104857600  >=1            ro           | segment.bytes of __transaction_state.
transaction.state.log.load.buffer.size       int      5242880    >=1            ro   ignored | Read size while transactions are loaded.
transaction.max.timeout.ms                   int      900000     >=1            ro           | Maximum transaction timeout that a producer may request.
transactional.id.expiration.ms               int      604800000  >=1            ro           | Time without activity after which a transactional id expires.
transaction.abort.timed.out.transaction.cleanup.interval.ms int      10000      >=1            ro   ignored | Interval between checks for timed-out transactions.
transaction.remove.expired.transaction.cleanup.interval.ms int      3600000    >=1            ro           | Interval between checks for expired transactional ids.
transaction.partition.verification.enable    bool     true       -              all          | Whether a transactional write is checked with the transaction coordinator.
transaction.two.phase.commit.enable          bool     false      -              ro           | Whether producers may use two-phase commit (KIP-939).
add.partitions.to.txn.retry.backoff.ms       int      20         >=1            ro           | Delay before AddPartitionsToTxn is retried.
add.partitions.to.txn.retry.backoff.max.ms   int      100        >=0            ro           | Maximum delay before AddPartitionsToTxn is retried.
producer.id.expiration.ms                    int      86400000   >=1            all          | Time without activity after which the state of an idempotent producer is forgotten.
producer.id.expiration.check.interval.ms     int      600000     >=1            ro   ignored | Interval between checks for expired producers.
"""  # noqa: E501

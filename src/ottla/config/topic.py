"""The properties of a topic, and the broker properties that set their defaults."""

from __future__ import annotations

from ottla.config.definitions import Property, read_table

TOPIC_PROPERTIES: dict[str, Property] = read_table("""
cleanup.policy                               list     delete     compact,delete all          | Whether old segments are deleted (delete), compacted to the last value of each key (compact), or both.
compression.gzip.level                       int      -1         gzip-level     all          | Compression level for compression.type=gzip.
compression.lz4.level                        int      9          1..17          all          | Compression level for compression.type=lz4.
compression.type                             string   producer   uncompressed,zstd,lz4,snappy,gzip,producer all          | Compression codec of stored batches; producer keeps the producer's codec.
compression.zstd.level                       int      3          -131072..22    all          | Compression level for compression.type=zstd.
delete.retention.ms                          long     86400000   >=0            all          | Time a compacted topic keeps tombstones.
file.delete.delay.ms                         long     60000      >=0            all          | Delay between deleting a segment and removing its files.
flush.messages                               long     max        >=1            all          | Number of records after which data is synced to disk.
flush.ms                                     long     max        >=0            all          | Time after which data is synced to disk.
follower.replication.throttled.replicas      list     ""         throttled      all          | Followers whose replication is throttled, as partition:broker, or * for all.
index.interval.bytes                         int      4096       >=0            all          | Bytes of log between two entries of the offset index.
leader.replication.throttled.replicas        list     ""         throttled      all          | Leaders whose replication is throttled, as partition:broker, or * for all.
local.retention.bytes                        long     -2         >=-2           all  ignored | Local size limit of a tiered topic; -2 uses retention.bytes.
local.retention.ms                           long     -2         >=-2           all  ignored | Local retention time of a tiered topic; -2 uses retention.ms.
max.compaction.lag.ms                        long     max        >=1            all          | Maximum time a record may stay uncompacted.
max.message.bytes                            int      1048588    >=0            all          | Maximum size of a record batch, after compression.
message.timestamp.after.max.ms               long     3600000    >=0            all          | How far a record's timestamp may be ahead of the broker's clock.
message.timestamp.before.max.ms              long     max        >=0            all          | How far a record's timestamp may be behind the broker's clock.
message.timestamp.type                       string   CreateTime CreateTime,LogAppendTime all          | Whether timestamps are set by the producer (CreateTime) or by the broker (LogAppendTime).
min.cleanable.dirty.ratio                    double   0.5        0..1           all          | Share of uncompacted bytes from which a log is compacted.
min.compaction.lag.ms                        long     0          >=0            all          | Minimum time a record stays uncompacted.
min.insync.replicas                          int      1          >=1            all          | Minimum number of in-sync replicas for a write with acks=all.
preallocate                                  bool     false      -              all  ignored | Whether the file of a new segment is allocated in advance.
remote.log.copy.disable                      bool     false      -              all  ignored | Whether tiering stops while tiered data is kept.
remote.log.delete.on.disable                 bool     false      -              all  ignored | Whether tiered data is deleted when tiering is disabled.
remote.storage.enable                        bool     false      -              all          | Whether the topic is tiered; tiered storage is not supported, so only false is accepted.
retention.bytes                              long     -1         -              all          | Maximum size of a partition before old segments are deleted; -1 disables the limit.
retention.ms                                 long     604800000  >=-1           all          | Maximum age of a segment before it is deleted; -1 disables the limit.
segment.bytes                                int      1073741824 >=1048576      all          | Maximum size of a segment.
segment.index.bytes                          int      10485760   >=4            all          | Maximum size of an index file.
segment.jitter.ms                            long     0          >=0            all          | Maximum random time subtracted from segment.ms, so that segments do not roll at once.
segment.ms                                   long     604800000  >=1            all          | Age after which a segment is rolled even if it is not full.
unclean.leader.election.enable               bool     false      -              all          | Whether an out-of-sync replica may become leader if no in-sync replica is left; data may be lost.
""")  # noqa: E501

MINUTE_MS = 60_000
HOUR_MS = 3_600_000

# Broker properties that set the default of a topic property, in order of precedence, and the factor between
# their units.
SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", MINUTE_MS),
        ("log.retention.hours", HOUR_MS),
    ),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}

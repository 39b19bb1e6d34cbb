"""The properties of a topic, and the broker properties that give their defaults."""

from __future__ import annotations

from ottla.config.definitions import Property, read_table

TOPIC_PROPERTIES: dict[str, Property] = read_table("""
cleanup.policy                       list   delete      compact,delete all | Drop old segments, keep the last value of each key, or both.
compression.gzip.level               int    -1          gzip-level     all | Level for gzip when compression.type is gzip.
compression.lz4.level                int    9           1..17          all | Level for lz4 when compression.type is lz4.
compression.type                     string producer    uncompressed,zstd,lz4,snappy,gzip,producer all | Codec on disk; producer keeps what was sent.
compression.zstd.level               int    3           -131072..22    all | Level for zstd when compression.type is zstd.
delete.retention.ms                  long   86400000    >=0            all | How long a compacted topic keeps tombstones.
file.delete.delay.ms                 long   60000       >=0            all | Wait between giving up a segment and removing its file.
flush.messages                       long   max         >=1            all | Force data to disk after this many records.
flush.ms                             long   max         >=0            all | Force data to disk after this time.
follower.replication.throttled.replicas list ""         throttled      all | Followers whose replication is throttled.
index.interval.bytes                 int    4096        >=0            all | Bytes of log per entry of the offset index.
leader.replication.throttled.replicas list  ""          throttled      all | Leaders whose replication is throttled.
local.retention.bytes                long   -2          >=-2           all | Bytes kept locally with tiering; -2 follows retention.bytes.
local.retention.ms                   long   -2          >=-2           all | Time kept locally with tiering; -2 follows retention.ms.
max.compaction.lag.ms                long   max         >=1            all | Longest time a record may stay uncompacted.
max.message.bytes                    int    1048588     >=0            all | Largest record batch, after compression.
message.timestamp.after.max.ms       long   3600000     >=0            all | How far a record's time may be ahead of the broker's.
message.timestamp.before.max.ms      long   max         >=0            all | How far a record's time may be behind the broker's.
message.timestamp.type               string CreateTime  CreateTime,LogAppendTime all | Whose clock stamps the records.
min.cleanable.dirty.ratio            double 0.5         0..1           all | Share of uncompacted bytes that starts compaction.
min.compaction.lag.ms                long   0           >=0            all | Shortest time a record stays uncompacted.
min.insync.replicas                  int    1           >=1            all | Replicas in sync that acks=all asks for.
preallocate                          bool   false       -              all | Reserve the file of a new segment on disk.
remote.log.copy.disable              bool   false       -              all | Keep what is tiered, but tier nothing more.
remote.log.delete.on.disable         bool   false       -              all | Delete the tiered data when tiering is switched off.
remote.storage.enable                bool   false       -              all | Move closed segments to remote storage.
retention.bytes                      long   -1          -              all | Size of a partition beyond which old segments go; -1 is none.
retention.ms                         long   604800000   >=-1           all | Age beyond which old segments go; -1 is none.
segment.bytes                        int    1073741824  >=1048576      all | Size of a segment file.
segment.index.bytes                  int    10485760    >=4            all | Largest size of an index file.
segment.jitter.ms                    long   0           >=0            all | Random time taken off segment.ms, to spread rolls.
segment.ms                           long   604800000   >=1            all | Age at which a segment is closed even if not full.
unclean.leader.election.enable       bool   false       -              all | May a replica out of sync lead when no other is left.
""")  # noqa: E501

MINUTE_MS = 60_000
HOUR_MS = 3_600_000

# Broker properties that give a topic's default, the first that is set wins, with the factor to its unit.
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

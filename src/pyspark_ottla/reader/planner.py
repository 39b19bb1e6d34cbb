"""What the driver requests from the cluster: the partitions to read and the offsets of start and end."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client import EARLIEST, LATEST, SyncCluster, shared_cluster
from ottla.client.blocking.groups import SyncGroup
from ottla.protocol.message import ZERO_UUID
from pyspark_ottla.offsets import Offsets, TopicPartition
from pyspark_ottla.reader.data_loss import format_partitions, report_loss
from pyspark_ottla.reader.offset_specs import OffsetSpec
from pyspark_ottla.reader.options import SourceOptions


class Planner:
    """Looks up partitions and offsets for the topics that the options select."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        # By topic, as of the last call of `partitions`. Brokers without topic ids have none.
        self.topic_ids: dict[str, bytes] = {}
        self.partition_counts: dict[str, int] = {}

    @property
    def cluster(self) -> SyncCluster:
        return shared_cluster(self.options.cluster)

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that exist now. Metadata is refreshed, so that new partitions are found."""
        topics = self.options.topics
        if topics.pattern is not None:
            names = self.cluster.topics_matching(topics.pattern)
        elif topics.names:
            names = list(topics.names)
        else:
            names = list(dict.fromkeys(topic for topic, _ in topics.assigned))
        infos = self.cluster.existing_topics(names)
        self.topic_ids = {name: info.id for name, info in infos.items() if info.id != ZERO_UUID}
        self.partition_counts = {name: len(info.partitions) for name, info in infos.items()}
        if topics.assigned:
            return [key for key in topics.assigned if key[0] in infos and key[1] in infos[key[0]].partitions]
        return [(name, partition) for name, info in infos.items() for partition in sorted(info.partitions)]

    def report_deleted(self, begun: Offsets, until: Offsets) -> None:
        """Report partitions that the query has read from and that no longer exist."""
        for key in begun:
            if key in until:
                continue
            count = self.partition_counts.get(key[0])
            why = "its topic was deleted"
            if count is not None:
                why = f"its topic was deleted and recreated with {count} partitions"
            self.report_loss(
                f"{format_partitions([key])} was read up to offset {begun[key]} and no longer exists: {why}"
            )

    def check_exist(self, partitions: list[TopicPartition]) -> None:
        """Raise ValueError if a topic or partition in the options does not exist: it may be a typo."""
        topics = self.options.topics
        found = {topic for topic, _ in partitions}
        missing = [name for name in topics.names if name not in found]
        missing += [format_partitions([key]) for key in topics.assigned if key not in partitions]
        if missing:
            raise ValueError(f"no such topic or partition: {', '.join(missing)}; create it first")

    def earliest(self, partitions: list[TopicPartition]) -> Offsets:
        return self._list(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: list[TopicPartition]) -> Offsets:
        """Return the end of what can be read: under read_committed, the last stable offset."""
        return self._list(dict.fromkeys(partitions, LATEST))

    def resolve(self, spec: OffsetSpec, partitions: list[TopicPartition], *, ending: bool = False) -> Offsets:
        """Resolve a start or end to an offset in each partition. Raises ValueError if that is impossible."""
        if spec.symbolic is not None:
            return self._list(dict.fromkeys(partitions, spec.symbolic))
        if spec.from_group:
            return self._committed(spec, partitions)
        if spec.timestamp_ms is not None:
            return self._at_timestamps(spec, dict.fromkeys(partitions, spec.timestamp_ms), ending)
        if spec.timestamps_ms is not None:
            self._check_complete(spec, spec.timestamps_ms, partitions)
            return self._at_timestamps(spec, {key: spec.timestamps_ms[key] for key in partitions}, ending)
        assert spec.offsets is not None, "one field of an OffsetSpec is set"
        self._check_complete(spec, spec.offsets, partitions)
        symbolic = {key: spec.offsets[key] for key in partitions if spec.offsets[key] < 0}
        return {key: spec.offsets[key] for key in partitions} | self._list(symbolic)

    def _committed(self, spec: OffsetSpec, partitions: list[TopicPartition]) -> Offsets:
        group_id, default = self.options.group_id, self.options.by_group_strategy
        committed = SyncGroup(self.cluster, group_id).committed(partitions)
        found = {key: committed[key].offset for key in partitions if key in committed}
        missing = [key for key in partitions if key not in found]
        if missing and default is None:
            raise ValueError(
                f"option {spec.option!r}: group {group_id!r} has no committed offset for "
                f"{format_partitions(missing)}; set startingOffsetsByGroupStrategy to earliest or latest"
            )
        return found | (self._list(dict.fromkeys(missing, default)) if default is not None else {})

    def _check_complete(
        self, spec: OffsetSpec, given: Mapping[TopicPartition, int], partitions: list[TopicPartition]
    ) -> None:
        missing = [key for key in partitions if key not in given]
        unknown = [key for key in given if key not in partitions]
        if missing or unknown:
            problem = f"{format_partitions(missing)} is missing"
            if not missing:
                problem = f"{format_partitions(unknown)} does not exist"
            raise ValueError(
                f"option {spec.option!r} must name every partition that is read and no other: {problem}"
            )

    def _at_timestamps(self, spec: OffsetSpec, wanted: dict[TopicPartition, int], ending: bool) -> Offsets:
        found = self._list(wanted)
        too_late = [key for key, offset in found.items() if offset < 0]
        if too_late and not ending and self.options.by_timestamp_strategy == "error":
            key = too_late[0]
            raise ValueError(
                f"option {spec.option!r}: {format_partitions([key])} has no record at or after timestamp "
                f"{wanted[key]}; set startingOffsetsByTimestampStrategy to latest to start at its end"
            )
        return found | self.latest(too_late)

    def _list(self, wanted: dict[TopicPartition, int]) -> Offsets:
        if not wanted:
            return {}
        listed = self.cluster.list_offsets(wanted, read_committed=self.options.read_committed)
        return {key: at.offset for key, at in listed.items()}

    def report_loss(self, what: str) -> None:
        report_loss(what, fail=self.options.fail_on_data_loss)

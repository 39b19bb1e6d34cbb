"""StreamsGroupTopologyValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class StreamsGroupTopologyValue(Message):
    API_KEY = 23
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("epoch", "subtopologies")
    SCHEMA = """
        epoch int32 0+
        subtopologies []Subtopology 0+
    """

    def __init__(self, *, epoch: int = 0, subtopologies: list[Subtopology] = UNSET) -> None:
        self.epoch = epoch
        self.subtopologies: list[Subtopology] = [] if subtopologies is UNSET else subtopologies


class Subtopology(Struct):
    __slots__ = (
        "subtopology_id", "source_topics", "source_topic_regex", "state_changelog_topics",
        "repartition_sink_topics", "repartition_source_topics", "copartition_groups",
    )
    SCHEMA = """
        subtopology_id string 0+
        source_topics []string 0+
        source_topic_regex []string 0+
        state_changelog_topics []TopicInfo 0+
        repartition_sink_topics []string 0+
        repartition_source_topics []TopicInfo 0+
        copartition_groups []CopartitionGroup 0+
    """

    def __init__(self, *,
        subtopology_id: str = "", source_topics: list[str] = UNSET, source_topic_regex: list[str] = UNSET,
        state_changelog_topics: list[TopicInfo] = UNSET, repartition_sink_topics: list[str] = UNSET,
        repartition_source_topics: list[TopicInfo] = UNSET,
        copartition_groups: list[CopartitionGroup] = UNSET,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics: list[str] = [] if source_topics is UNSET else source_topics
        self.source_topic_regex: list[str] = [] if source_topic_regex is UNSET else source_topic_regex
        self.state_changelog_topics: list[TopicInfo] = [] if state_changelog_topics is UNSET else state_changelog_topics
        self.repartition_sink_topics: list[str] = [] if repartition_sink_topics is UNSET else repartition_sink_topics
        self.repartition_source_topics: list[TopicInfo] = [] if repartition_source_topics is UNSET else repartition_source_topics
        self.copartition_groups: list[CopartitionGroup] = [] if copartition_groups is UNSET else copartition_groups


class TopicInfo(Struct):
    __slots__ = ("name", "partitions", "replication_factor", "topic_configs")
    SCHEMA = """
        name string 0+
        partitions int32 0+
        replication_factor int16 0+
        topic_configs []TopicConfig 0+
    """

    def __init__(self, *,
        name: str = "", partitions: int = 0, replication_factor: int = 0,
        topic_configs: list[TopicConfig] = UNSET,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs: list[TopicConfig] = [] if topic_configs is UNSET else topic_configs


class TopicConfig(Struct):
    __slots__ = ("key", "value")
    SCHEMA = """
        key string 0+
        value string 0+
    """

    def __init__(self, *, key: str = "", value: str = "") -> None:
        self.key = key
        self.value = value


class CopartitionGroup(Struct):
    __slots__ = ("source_topics", "source_topic_regex", "repartition_source_topics")
    SCHEMA = """
        source_topics []int16 0+
        source_topic_regex []int16 0+
        repartition_source_topics []int16 0+
    """

    def __init__(self, *,
        source_topics: list[int] = UNSET, source_topic_regex: list[int] = UNSET,
        repartition_source_topics: list[int] = UNSET,
    ) -> None:
        self.source_topics: list[int] = [] if source_topics is UNSET else source_topics
        self.source_topic_regex: list[int] = [] if source_topic_regex is UNSET else source_topic_regex
        self.repartition_source_topics: list[int] = [] if repartition_source_topics is UNSET else repartition_source_topics

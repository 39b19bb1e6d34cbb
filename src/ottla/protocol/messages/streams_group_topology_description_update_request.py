"""StreamsGroupTopologyDescriptionUpdateRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class StreamsGroupTopologyDescriptionUpdateRequest(Message):
    API_KEY = 93
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("group_id", "member_id", "topology_epoch", "topology_description")
    SCHEMA = """
        group_id string 0+
        member_id string 0+
        topology_epoch int32 0+
        topology_description TopologyDescription 0+
    """

    def __init__(self, *,
        group_id: str = "", member_id: str = "", topology_epoch: int = 0,
        topology_description: TopologyDescription = UNSET,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.topology_epoch = topology_epoch
        self.topology_description: TopologyDescription = TopologyDescription() if topology_description is UNSET else topology_description


class TopologyDescription(Struct):
    __slots__ = ("subtopologies", "global_stores")
    SCHEMA = """
        subtopologies []TopologyDescriptionSubtopology 0+
        global_stores []TopologyDescriptionGlobalStore 0+
    """

    def __init__(self, *,
        subtopologies: list[TopologyDescriptionSubtopology] = UNSET,
        global_stores: list[TopologyDescriptionGlobalStore] = UNSET,
    ) -> None:
        self.subtopologies: list[TopologyDescriptionSubtopology] = [] if subtopologies is UNSET else subtopologies
        self.global_stores: list[TopologyDescriptionGlobalStore] = [] if global_stores is UNSET else global_stores


class TopologyDescriptionSubtopology(Struct):
    __slots__ = ("subtopology_id", "nodes")
    SCHEMA = """
        subtopology_id string 0+
        nodes []TopologyDescriptionNode 0+
    """

    def __init__(self, *, subtopology_id: str = "", nodes: list[TopologyDescriptionNode] = UNSET) -> None:
        self.subtopology_id = subtopology_id
        self.nodes: list[TopologyDescriptionNode] = [] if nodes is UNSET else nodes


class TopologyDescriptionNode(Struct):
    __slots__ = ("name", "node_type", "source_topics", "sink_topic", "stores", "successors")
    SCHEMA = """
        name string 0+
        node_type int8 0+
        source_topics []string 0+
        sink_topic string 0+ null:0+ default:null
        stores []string 0+
        successors []string 0+
    """

    def __init__(self, *,
        name: str = "", node_type: int = 0, source_topics: list[str] = UNSET, sink_topic: str | None = None,
        stores: list[str] = UNSET, successors: list[str] = UNSET,
    ) -> None:
        self.name = name
        self.node_type = node_type
        self.source_topics: list[str] = [] if source_topics is UNSET else source_topics
        self.sink_topic = sink_topic
        self.stores: list[str] = [] if stores is UNSET else stores
        self.successors: list[str] = [] if successors is UNSET else successors


class TopologyDescriptionGlobalStore(Struct):
    __slots__ = ("source", "processor")
    SCHEMA = """
        source TopologyDescriptionNode 0+
        processor TopologyDescriptionNode 0+
    """

    def __init__(self, *,
        source: TopologyDescriptionNode = UNSET, processor: TopologyDescriptionNode = UNSET,
    ) -> None:
        self.source: TopologyDescriptionNode = TopologyDescriptionNode() if source is UNSET else source
        self.processor: TopologyDescriptionNode = TopologyDescriptionNode() if processor is UNSET else processor

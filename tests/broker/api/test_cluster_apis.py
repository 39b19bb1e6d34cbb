"""Requests that the quorum or the controller decides, and how each listener describes the cluster."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.api.cluster.api_versions import ApiVersions
from ottla.broker.api.cluster.describe_cluster import DescribeCluster
from ottla.broker.api.forwarding import raft_handler
from ottla.broker.api.registry import declaration, served_versions
from ottla.broker.identity import NodeIdentity
from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.image.cluster import ClusterImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import encode_response
from ottla.protocol.message import Message
from ottla.protocol.messages import describe_quorum_response as quorum
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ottla.protocol.messages.feature_level_record import FeatureLevelRecord
from ottla.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from ottla.protocol.messages.register_controller_record import ControllerEndpoint, RegisterControllerRecord
from ottla.protocol.messages.vote_request import VoteRequest
from ottla.quorum.raft.voters import Endpoint, Voter, VoterSet

CLIENT, CONTROLLER = "PLAINTEXT", "CONTROLLER"


class Quorum:
    """The Raft driver of a node; records its requests."""

    def __init__(self, *, kraft_version: int = 0) -> None:
        self.asked: list[Message] = []
        voters = [Voter(each, endpoints=(Endpoint(CONTROLLER, "static", each),)) for each in (1, 2, 3)]
        self.machine = SimpleNamespace(leader_id=2, kraft_version=kraft_version, voters=VoterSet(voters))

    def request(self, message: Message) -> asyncio.Future[Message]:
        self.asked.append(message)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        future.set_result(description())
        return future


def description() -> quorum.DescribeQuorumResponse:
    state = quorum.ReplicaState(replica_id=1, replica_directory_id=b"d" * 16)
    partition = quorum.PartitionData(current_voters=[state], observers=[state])
    return quorum.DescribeQuorumResponse(
        topics=[quorum.TopicData(partitions=[partition])], nodes=[quorum.Node(node_id=1)]
    )


class Controller:
    """A controller channel that records what is forwarded."""

    def __init__(self) -> None:
        self.forwarded: list[Message] = []

    async def ask(self, message: Message, **_: Any) -> Message:
        self.forwarded.append(message)
        return description()


class Node:
    """The parts of a node that these handlers use."""

    def __init__(self, quorum: Quorum | None = None) -> None:
        self.quorum = quorum or Quorum()
        self.quorum_node: Any = SimpleNamespace(raft=self.quorum)
        self.controller = Controller()
        self.identity = NodeIdentity(1)
        self.identity.cluster_id = "c"
        self.metadata = MetadataCache()
        self.metadata.offset = 17
        self.parts: Any = SimpleNamespace(quorum=self.quorum_node, controller=self.controller)

    @property
    def image(self) -> ClusterImage:
        return self.metadata.image


def requested(listener: str = CLIENT, version: int = 2) -> Any:
    return SimpleNamespace(
        version=version,
        client_id="test",
        listener=SimpleNamespace(name=listener),
        on_controller_listener=listener == CONTROLLER,
        connection=SimpleNamespace(client_software=""),
    )


def respond(handler: Any, request: Any, message: Message) -> Any:
    async def response() -> Any:
        found = handler(request, message)
        return found if isinstance(found, Message) else await found

    return asyncio.run(response())


# -- which node responds


def test_commands_are_forwarded_to_the_controller() -> None:
    node, message = Node(), ElectLeadersRequest()
    respond(declaration(ElectLeadersRequest.API_KEY).create(node.parts), requested(), message)
    assert node.controller.forwarded == [message]


def test_raft_requests_go_to_the_machine() -> None:
    node, message = Node(), VoteRequest()
    respond(raft_handler(node.parts), requested(CONTROLLER), message)
    assert node.quorum.asked == [message]


def describe_quorum(node: Node, listener: str, version: int = 2) -> Any:
    api = declaration(DescribeQuorumRequest.API_KEY)
    create = api.create_for_controller if listener == CONTROLLER else api.create
    return respond(create(node.parts), requested(listener, version), DescribeQuorumRequest())


@pytest.mark.parametrize(("listener", "here"), [(CLIENT, False), (CONTROLLER, True)])
def test_the_leader_of_the_quorum_describes_it(listener: str, here: bool) -> None:
    node = Node()
    response = describe_quorum(node, listener)
    assert len(node.quorum.asked) == here
    assert len(node.controller.forwarded) == (not here)
    partition = response.topics[0].partitions[0]
    assert response.nodes and partition.current_voters[0].replica_directory_id == b"d" * 16


@pytest.mark.parametrize("listener", [CLIENT, CONTROLLER])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_of_the_description_can_be_encoded(version: int, listener: str) -> None:
    response = describe_quorum(Node(), listener, version)
    assert encode_response(55, version, 1, response)
    assert response.topics[0].partitions[0].observers[0].replica_id == 1


# -- descriptions of the cluster


def cluster_of(node: Node, listener: str, **how: Any) -> Any:
    node.image.apply(
        RegisterBrokerRecord(
            broker_id=1,
            fenced=False,
            end_points=[BrokerEndpoint(name=CLIENT, host="h", port=9092)],
        )
    )
    message = DescribeClusterRequest(**how)
    handler = DescribeCluster(node.identity, node.metadata, node.quorum_node)
    answer = respond(handler.handle, requested(listener), message)
    assert encode_response(60, 2, 1, answer)
    return answer


def test_broker_listeners_describe_brokers() -> None:
    answer = cluster_of(Node(), CLIENT)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "c", 1)
    assert [(each.broker_id, each.host, each.port) for each in answer.brokers] == [(1, "h", 9092)]


def test_controller_listeners_describe_controllers() -> None:
    node = Node()
    endpoints = [
        ControllerEndpoint(name="OTHER", host="o", port=1),
        ControllerEndpoint(name=CONTROLLER, host="r", port=2),
    ]
    node.image.apply(RegisterControllerRecord(controller_id=3, end_points=endpoints))
    answer = cluster_of(node, CONTROLLER, endpoint_type=2)
    assert (answer.error_code, answer.endpoint_type, answer.controller_id) == (0, 2, 2)
    assert [(each.broker_id, each.host, each.port) for each in answer.brokers] == [
        (1, "static", 1),
        (2, "static", 2),
        (3, "r", 2),
    ]


@pytest.mark.parametrize(
    ("listener", "endpoint_type", "error"),
    [
        (CLIENT, 2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (CONTROLLER, 1, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (CLIENT, 3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_the_wrong_kind_of_endpoint_is_refused(listener: str, endpoint_type: int, error: int) -> None:
    answer = cluster_of(Node(), listener, endpoint_type=endpoint_type)
    assert answer.error_code == error
    assert answer.brokers == []


def versions_of(node: Node, listener: str, version: int = 4, **expected: Any) -> Any:
    message = ApiVersionsRequest(client_software_name="a", client_software_version="1", **expected)
    handler = ApiVersions(node.identity, node.metadata, node.quorum_node, two_phase_commit=False)
    return respond(handler.handle, requested(listener, version), message)


def test_each_listener_advertises_its_own_apis() -> None:
    for listener, kind in ((CLIENT, "broker"), (CONTROLLER, "controller")):
        advertised = {each.api_key: each for each in versions_of(Node(), listener).api_keys}
        assert list(advertised) == list(served_versions(kind))
        handler = ApiVersions(NodeIdentity(1), MetadataCache(), Node().quorum_node, two_phase_commit=False)
        unsupported = handler.handle(requested(listener, 0), None)
        assert [each.api_key for each in unsupported.api_keys] == list(advertised)
        assert unsupported.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("listener", [CLIENT, CONTROLLER])
@pytest.mark.parametrize(
    ("expected", "error"),
    [
        ({}, ErrorCode.NONE),
        ({"cluster_id": "c", "node_id": 1}, ErrorCode.NONE),
        ({"cluster_id": "other", "node_id": 1}, ErrorCode.REBOOTSTRAP_REQUIRED),
        ({"cluster_id": "c", "node_id": 2}, ErrorCode.REBOOTSTRAP_REQUIRED),
        ({"cluster_id": "c"}, ErrorCode.INVALID_REQUEST),
        ({"node_id": 1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_clients_may_name_the_node_that_they_expect(
    listener: str, expected: dict[str, Any], error: int
) -> None:
    answer = versions_of(Node(), listener, 5, **expected)
    assert answer.error_code == error
    assert bool(answer.api_keys) == (error == ErrorCode.NONE)
    assert versions_of(Node(), listener, 4, **expected).error_code == ErrorCode.NONE


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_features(kraft_version: int) -> None:
    node = Node(Quorum(kraft_version=kraft_version))
    node.image.apply(FeatureLevelRecord(name="metadata.version", feature_level=30))
    answer = versions_of(node, CONTROLLER)
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    assert supported["kraft.version"] == (0, 1), "a controller needs it to become a voter"
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    assert finalized == {"metadata.version": 30, **({"kraft.version": 1} if kraft_version else {})}
    assert answer.finalized_features_epoch == 17
    low = versions_of(node, CONTROLLER, version=3)
    assert [each.name for each in low.supported_features] == ["metadata.version"]

"""Requests that the quorum or the controller answers, and what each listener tells of the cluster."""

from __future__ import annotations

import asyncio
import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.api.handlers import (
    CONTROLLER_HANDLERS,
    HANDLERS,
    api_versions,
    controller_command,
    describe_cluster,
    quorum_admin,
    raft_request,
)
from ottla.controller.image import ClusterImage
from ottla.protocol.api import API_BY_KEY
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
    """A node's place in the quorum, and what it was asked."""

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


class Node:
    """As much of a broker as these handlers use."""

    def __init__(self, quorum: Quorum | None = None) -> None:
        self.quorum = quorum or Quorum()
        self.carried: list[tuple[Any, Message]] = []
        self.image = ClusterImage()
        self.image_offset = 17
        self.node_id = 1
        self.cluster_id = "c"

    async def change(self, request: Any, message: Message) -> Message:
        self.carried.append((request, message))
        return description()


def apis_of(listener: str) -> Any:
    api = SimpleNamespace(key=52 if listener == CONTROLLER else 3, min_version=0, max_version=2)
    return SimpleNamespace(advertised=lambda: [api])


def asked(listener: str = CLIENT, version: int = 2) -> Any:
    return SimpleNamespace(
        version=version,
        listener=SimpleNamespace(name=listener, dispatcher=apis_of(listener)),
        on_controller_listener=listener == CONTROLLER,
        connection=SimpleNamespace(client_software=""),
    )


def ask(handler: Any, node: Node, request: Any, message: Message) -> Any:
    async def answer() -> Any:
        found = handler.handle(node, request, message)
        return found if isinstance(found, Message) else await found

    return asyncio.run(answer())


# -- the tables


@pytest.mark.parametrize(("table", "listener"), [(HANDLERS, "broker"), (CONTROLLER_HANDLERS, "controller")])
def test_every_api_that_is_told_has_its_handler(table: dict[int, str], listener: str) -> None:
    for key, name in table.items():
        module = importlib.import_module(f"ottla.broker.api.handlers.{name}")
        keys = getattr(module, "API_KEYS", None) or (module.API_KEY,)
        assert key in keys, f"{name} does not serve {key}"
        assert listener in API_BY_KEY[key].listeners, f"{API_BY_KEY[key].name} is not for a {listener}"


# -- who answers


def test_commands_are_carried_to_the_controller() -> None:
    node, request, message = Node(), asked(), ElectLeadersRequest()
    ask(controller_command, node, request, message)
    assert node.carried == [(request, message)]


def test_raft_requests_go_to_the_machine() -> None:
    node, message = Node(), VoteRequest()
    ask(raft_request, node, asked(CONTROLLER), message)
    assert node.quorum.asked == [message]


@pytest.mark.parametrize(
    ("listener", "here"),
    [(CLIENT, False), (CONTROLLER, True)],
)
def test_the_quorum_is_described_by_its_leader(listener: str, here: bool) -> None:
    node, message = Node(), DescribeQuorumRequest()
    answer = ask(quorum_admin, node, asked(listener), message)
    assert node.quorum.asked == ([message] if here else [])
    assert len(node.carried) == (not here)
    assert answer.nodes and answer.topics[0].partitions[0].current_voters[0].replica_directory_id == b"d" * 16


@pytest.mark.parametrize("listener", [CLIENT, CONTROLLER])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_of_the_description_can_be_written(version: int, listener: str) -> None:
    answer = ask(quorum_admin, Node(), asked(listener, version), DescribeQuorumRequest())
    assert encode_response(55, version, 1, answer)
    assert answer.topics[0].partitions[0].observers[0].replica_id == 1


# -- what is told


def cluster_of(node: Node, listener: str, **how: Any) -> Any:
    node.image.apply(
        RegisterBrokerRecord(
            broker_id=1,
            fenced=False,
            end_points=[BrokerEndpoint(name=CLIENT, host="h", port=9092)],
        )
    )
    message = DescribeClusterRequest(**how)
    answer = ask(describe_cluster, node, asked(listener), message)
    assert encode_response(60, 2, 1, answer)
    return answer


def test_brokers_are_told_on_the_listeners_of_brokers() -> None:
    answer = cluster_of(Node(), CLIENT)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "c", 1)
    assert [(each.broker_id, each.host, each.port) for each in answer.brokers] == [(1, "h", 9092)]


def test_controllers_are_told_on_the_listeners_of_controllers() -> None:
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
def test_who_asks_for_the_wrong_kind_is_told(listener: str, endpoint_type: int, error: int) -> None:
    answer = cluster_of(Node(), listener, endpoint_type=endpoint_type)
    assert answer.error_code == error
    assert answer.brokers == []


def versions_of(node: Node, listener: str, version: int = 4) -> Any:
    message = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    return ask(api_versions, node, asked(listener, version), message)


def test_each_listener_tells_its_own_apis() -> None:
    assert [each.api_key for each in versions_of(Node(), CLIENT).api_keys] == [3]
    assert [each.api_key for each in versions_of(Node(), CONTROLLER).api_keys] == [52]
    unsupported = api_versions.unsupported_version(apis_of(CONTROLLER))
    assert [each.api_key for each in unsupported.api_keys] == [52]


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_features(kraft_version: int) -> None:
    node = Node(Quorum(kraft_version=kraft_version))
    node.image.apply(FeatureLevelRecord(name="metadata.version", feature_level=30))
    answer = versions_of(node, CONTROLLER)
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    assert supported["kraft.version"] == (0, 1), "by it a controller is found fit to become a voter"
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    assert finalized == {"metadata.version": 30, **({"kraft.version": 1} if kraft_version else {})}
    assert answer.finalized_features_epoch == 17
    low = versions_of(node, CONTROLLER, version=3)
    assert [each.name for each in low.supported_features] == ["metadata.version"]

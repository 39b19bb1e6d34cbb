"""ControllerChannel: refusals are retried elsewhere, and a call ends when the controller moves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.broker.identity import NodeIdentity
from ottla.broker.metadata.controller_channel import ControllerChannel, ControllerUnreachable
from ottla.broker.net.peer import PeerLost
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from ottla.quorum.raft.voters import Endpoint


class OtherController:
    """Fake ControllerHost: another node runs the controller."""

    def __init__(self) -> None:
        self.active = None
        self.leader_id = 2
        self.leader_endpoint: Endpoint | None = Endpoint("CONTROLLER", "nowhere", 1)
        self.news: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def next_change(self) -> asyncio.Future[None]:
        return self.news

    def move(self) -> None:
        news, self.news = self.news, asyncio.get_running_loop().create_future()
        news.set_result(None)


class Answers:
    """A peer that gives these responses, one after the other; None: it hangs."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.began = asyncio.Event()

    async def call(self, *_: Any, **__: Any) -> Any:
        answer = self.answers.pop(0)
        self.began.set()
        if answer is None:
            await asyncio.sleep(3600)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        pass


def channel(peer: Answers) -> tuple[ControllerChannel, OtherController]:
    controllers: Any = OtherController()
    found: Any = ControllerChannel(controllers, NodeIdentity(1), 1000)
    found._peer = lambda *_: peer
    return found, controllers


def created(code: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=code)])


CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
REFUSALS: list[tuple[Any, Any, Any]] = [
    (CREATE, created(ErrorCode.NOT_CONTROLLER), created(ErrorCode.NONE)),
    (CREATE, created(ErrorCode.NOT_CONTROLLER), created(ErrorCode.TOPIC_ALREADY_EXISTS)),
    (
        BrokerHeartbeatRequest(),
        BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER),
        BrokerHeartbeatResponse(),
    ),
    (CREATE, PeerLost("gone", disconnected=True), created(ErrorCode.NONE)),
]


@pytest.mark.parametrize(("request_", "refusal", "answer"), REFUSALS)
def test_a_refusal_is_retried(request_: Any, refusal: Any, answer: Any) -> None:
    async def main() -> None:
        peer = Answers(refusal, refusal, answer)
        found, _ = channel(peer)
        assert await found.ask(request_) is answer

    asyncio.run(main())


def test_a_call_ends_when_the_controller_moves() -> None:
    async def main() -> None:
        answer = created(ErrorCode.NONE)
        peer = Answers(None, answer)
        found, controllers = channel(peer)
        asking = asyncio.ensure_future(found.ask(CREATE, timeout_ms=60_000))
        await peer.began.wait()
        controllers.move()
        assert await asyncio.wait_for(asking, 5) is answer

    asyncio.run(main())


def test_without_a_controller_the_call_times_out() -> None:
    async def main() -> None:
        found, controllers = channel(Answers())
        controllers.leader_endpoint = None
        with pytest.raises(ControllerUnreachable):
            await found.ask(CREATE, timeout_ms=100)

    asyncio.run(main())

"""Metadata and coordinators on both shells: refresh rules, retries, moves, errors, options."""

from __future__ import annotations

import pytest

from ottla.client import (
    EARLIEST,
    LATEST,
    BrokerError,
    ClientOptions,
    ConnectionFailedError,
    UnknownTopicError,
)
from ottla.client.core.coordinators import GROUP, Coordinators
from ottla.client.core.offsets import list_offsets
from ottla.client.core.transaction_api import TransactionApi
from ottla.client.core.transaction_status import describe_all
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    describe_transactions_response,
    metadata_response,
    offset_commit_response,
    offset_fetch_response,
)
from tests.support.client.stub import StubBroker


def test_metadata_is_reused_until_it_is_old_or_expired(shell, with_stub):
    def steps(core):
        for _ in range(3):
            yield from core.topic("t")
        core.view.expire("t")
        yield from core.topic("t")
        yield from core.topic("t", fresh=True)
        core.view.expire_led_by(1)
        return (yield from core.partition("t", 0))

    async def scenario(stub):
        stub.add_topic("t")
        found = await shell.run(stub.bootstrap, steps)
        assert (found.leader, found.leader_epoch) == (1, 0)
        assert len(stub.asked("Metadata")) == 4

    with_stub(scenario)


def test_old_metadata_is_refreshed(shell, with_stub):
    def steps(core):
        for _ in range(3):
            yield from core.topic("t")

    async def scenario(stub):
        stub.add_topic("t")
        await shell.run(stub.bootstrap, steps, metadata_max_age_ms=0)
        assert len(stub.asked("Metadata")) == 3

    with_stub(scenario)


def test_an_older_leader_epoch_does_not_replace_a_newer_one(shell, with_stub):
    def steps(core):
        yield from core.refresh(["t"])
        yield from core.refresh(["t"])
        return core.view.topics["t"].partitions[0]

    async def scenario(stub):
        stub.add_topic("t")
        stub.move_leader("t", 0, 1)

        def lagging(request):
            response = stub.metadata(request)
            response.topics[0].partitions[0].leader_epoch = 0
            response.topics[0].partitions[0].leader_id = 9
            return response

        stub.plans["Metadata"].extend([stub.metadata, lagging])
        found = await shell.run(stub.bootstrap, steps)
        assert (found.leader, found.leader_epoch) == (1, 1)

    with_stub(scenario)


def test_a_partition_without_a_leader_is_retried(shell, with_stub):
    def steps(core):
        return (yield from core.retrying(lambda: core.partition("t", 0)))

    async def scenario(stub):
        stub.add_topic("t")

        def leaderless(request):
            response = stub.metadata(request)
            row = response.topics[0].partitions[0]
            row.leader_id, row.error_code = -1, ErrorCode.LEADER_NOT_AVAILABLE
            return response

        stub.plans["Metadata"].extend([leaderless, leaderless])
        assert (await shell.run(stub.bootstrap, steps)).leader == 1
        assert len(stub.asked("Metadata")) == 3

    with_stub(scenario)


def test_a_partition_that_was_added_is_found(shell, with_stub):
    """The error expires the metadata, so the next attempt uses the current topic."""

    async def scenario(stub):
        stub.add_topic("t")

        def steps(core):
            yield from core.topic("t")
            stub.topics["t"] = 2
            with pytest.raises(UnknownTopicError, match="partitions 0 to 0"):
                yield from core.partition("t", 1)
            return (yield from core.partition("t", 1))

        assert (await shell.run(stub.bootstrap, steps)).partition == 1

    with_stub(scenario)


def test_only_a_creating_client_waits_for_a_missing_topic(shell, with_stub):
    async def scenario(stub):
        def appear(request):
            stub.add_topic("new")
            return metadata_response.MetadataResponse(
                brokers=stub.metadata(request).brokers,
                topics=[metadata_response.MetadataResponseTopic(name="new", error_code=3)],
            )

        stub.plans["Metadata"].append(appear)
        with pytest.raises(UnknownTopicError):
            await shell.run(stub.bootstrap, lambda core: core.topic("new"))
        stub.topics.clear()
        stub.plans["Metadata"].append(appear)
        found = await shell.run(stub.bootstrap, lambda core: core.topic("new", create=True))
        assert found.name == "new"

    with_stub(scenario)


def test_requests_for_any_broker_try_the_next_one(shell, with_stub):
    """The first address does not listen; the second closes the connection; the third responds."""

    async def scenario(stub):
        stub.add_topic("t")
        rude = StubBroker(2)
        await rude.start()
        rude.plans["Metadata"].append(rude.CLOSE)
        servers = f"127.0.0.1:1,{rude.bootstrap},{stub.bootstrap}"
        assert (await shell.run(servers, lambda core: core.topic("t"))).name == "t"
        await rude.stop()

    with_stub(scenario)


def test_no_broker_at_all_is_an_error_that_names_all_addresses(shell, with_stub):
    async def scenario(stub):
        with pytest.raises(ConnectionFailedError, match=r"127.0.0.1:1: .*127.0.0.1:2: "):
            await shell.run("127.0.0.1:1,127.0.0.1:2", lambda core: core.refresh(None))

    with_stub(scenario)


def test_topics_by_pattern_and_by_name(shell, with_stub):
    async def scenario(stub):
        for name in ("orders", "orders-eu", "bills"):
            stub.add_topic(name)
        matching = await shell.run(stub.bootstrap, lambda core: core.topics_matching("orders.*"))
        assert matching == ["orders", "orders-eu"]
        existing = await shell.run(stub.bootstrap, lambda core: core.existing_topics(["bills", "nope"]))
        assert list(existing) == ["bills"]

    with_stub(scenario)


def test_offsets_come_from_the_leaders(shell, with_stub):
    async def scenario(stub):
        stub.add_topic("t", 2)
        other = StubBroker(2)
        other.join(stub)
        await other.start()
        stub.move_leader("t", 1, 2)
        stub.ends["t", 0], stub.ends["t", 1], other.starts["t", 1] = 7, 9, 3
        wanted = {("t", 0): LATEST, ("t", 1): EARLIEST}
        found = await shell.run(stub.bootstrap, lambda core: list_offsets(core, wanted))
        assert {key: at.offset for key, at in found.items()} == {("t", 0): 7, ("t", 1): 3}

    with_stub(scenario)


def coordinates_offsets(stub: StubBroker, store: dict, refusals: list[int]) -> None:
    """Make a stub respond to OffsetCommit and OffsetFetch; `refusals` are its next error codes."""

    def commit(request):
        wire = offset_commit_response
        code = refusals.pop(0) if refusals else 0
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                if not code:
                    store[topic.name, row.partition_index] = row.committed_offset
                rows.append(
                    wire.OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
                )
            topics.append(wire.OffsetCommitResponseTopic(name=topic.name, partitions=rows))
        return wire.OffsetCommitResponse(topics=topics)

    def fetch(request):
        wire = offset_fetch_response
        rows = [
            wire.OffsetFetchResponseTopics(
                name=topic,
                partitions=[
                    wire.OffsetFetchResponsePartitions(partition_index=number, committed_offset=offset)
                ],
            )
            for (topic, number), offset in store.items()
        ]
        group = wire.OffsetFetchResponseGroup(group_id=request.groups[0].group_id, topics=rows)
        return wire.OffsetFetchResponse(groups=[group])

    stub.handlers.update({"OffsetCommit": commit, "OffsetFetch": fetch})


def test_a_coordinator_that_moved_is_looked_up_again(shell, with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        other = StubBroker(2)
        other.join(stub)
        await other.start()
        store: dict = {}

        refusals = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
        coordinates_offsets(stub, store, refusals)
        coordinates_offsets(other, store, [])
        plain = stub.handlers["OffsetCommit"]

        def commit(request):
            response = plain(request)
            if not refusals:
                stub.coordinators["g"] = 2
            return response

        stub.handlers["OffsetCommit"] = commit
        found = await shell.committed(stub.bootstrap, "g")
        assert {key: row.offset for key, row in found.items()} == {("t", 0): 5}
        assert len(stub.asked("OffsetCommit")) == 2 and len(other.asked("OffsetCommit")) == 1

    with_stub(scenario)


def test_coordinators_of_many_keys(shell, with_stub):
    keys = [f"g{n}" for n in range(5)]

    def steps(core):
        coordinators = Coordinators(core, GROUP)
        yield from coordinators.find_all(keys)
        yield from coordinators.find_all(keys)
        return [coordinators.known(key) for key in keys]

    async def scenario(stub):
        other = StubBroker(2)
        other.join(stub)
        await other.start()
        stub.coordinators["g3"] = 2
        assert await shell.run(stub.bootstrap, steps) == [1, 1, 1, 2, 1]
        assert len(stub.asked("FindCoordinator")) == 1
        # Before version 4 a request has one key.
        stub.versions[10] = (0, 3)
        stub.requests.clear()
        assert await shell.run(stub.bootstrap, steps) == [1, 1, 1, 2, 1]
        assert len(stub.asked("FindCoordinator")) == 5

    with_stub(scenario)


def test_transactions_are_described_with_a_request_per_coordinator(shell, with_stub):
    wire = describe_transactions_response
    refusals = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    def describe(request):
        codes = dict.fromkeys(request.transactional_ids, 0) | {"gone": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
        if refusals and "x1" in request.transactional_ids:
            codes["x1"] = refusals.pop()
        rows = [
            wire.TransactionState(
                transactional_id=name, transaction_state="Ongoing", producer_id=5, error_code=codes[name]
            )
            for name in request.transactional_ids
        ]
        return wire.DescribeTransactionsResponse(transaction_states=rows)

    async def scenario(stub):
        other = StubBroker(2)
        other.join(stub)
        await other.start()
        stub.coordinators["x2"] = 2
        stub.handlers["DescribeTransactions"] = other.handlers["DescribeTransactions"] = describe
        names = ["x1", "x2", "x3", "gone"]
        found = await shell.run(stub.bootstrap, lambda core: describe_all(TransactionApi(core), names))
        assert {name: info and (info.producer_id, info.coordinator) for name, info in found.items()} == {
            "x1": (5, 1),
            "x2": (5, 2),
            "x3": (5, 1),
            "gone": None,
        }
        asked = [request.transactional_ids for request in stub.asked("DescribeTransactions")]
        assert asked == [["x1", "x3", "gone"], ["x1"], ["x1"]]
        refusals[:] = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
        with pytest.raises(BrokerError, match="x1"):
            await shell.run(stub.bootstrap, lambda core: describe_all(TransactionApi(core), ["x1"]))

    with_stub(scenario)


def test_a_coordinator_that_refuses_is_an_error_with_its_group(shell, with_stub):
    async def scenario(stub):
        stub.add_topic("t")
        coordinates_offsets(stub, {}, [ErrorCode.UNKNOWN_MEMBER_ID])
        with pytest.raises(BrokerError, match=r"group 'g': topic 't' partition 0: UNKNOWN_MEMBER_ID \(25\)"):
            await shell.committed(stub.bootstrap, "g")

    with_stub(scenario)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acks": "most"}, "acks='most': expected 0, 1 or 'all'"),
        ({"acks": 1, "idempotent": True}, "acks=1: an idempotent producer needs acks='all'"),
        ({"compression": "rar"}, "compression='rar': expected one of none, gzip"),
        ({"batch_bytes": -1}, "batch_bytes=-1: expected 0 or more"),
        ({"delivery_timeout_ms": -1}, "delivery_timeout_ms=-1: expected 0 or more"),
        ({"transactional_id": ""}, "transactional_id: needs a name"),
        ({"acks": 1, "transactional_id": "x"}, "transactional_id: needs a name, acks='all'"),
        ({"partitioner": 3}, "partitioner=3: expected a callable"),
    ],
)
def test_wrong_options_are_refused_at_once(shell, options, message):
    with pytest.raises(ValueError, match=message):
        shell.writer("localhost:1", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"request_timeout_ms": 0}, "request_timeout_ms=0"),
        ({"linger_ms": -1}, "linger_ms=-1: expected 0 or more"),
        ({"isolation_level": "none"}, "isolation_level='none': expected one of read_uncommitted"),
        ({"two_phase_commit": True}, "two_phase_commit needs a transactional_id"),
    ],
)
def test_invalid_client_options(options, message):
    with pytest.raises(ValueError, match=message):
        ClientOptions("localhost:1", **options)

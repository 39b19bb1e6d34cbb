"""A client for any Kafka-compatible cluster, for asyncio and for blocking code.

    from ottla.client import Admin, Consumer, NewTopic, Producer

    async with Admin("localhost:9092") as admin:
        await admin.create_topics([NewTopic("orders", partitions=3)])
    async with Producer("localhost:9092") as producer:
        await producer.send("orders", b"value", key=b"key")
    async with Consumer("localhost:9092") as consumer:
        await consumer.assign("orders", start="beginning")
        async for record in consumer:
            print(record)
    async with Consumer("localhost:9092", group_id="billing") as consumer:
        consumer.subscribe("orders")
        async for record in consumer:
            print(record)
    async with Producer("localhost:9092", transactional_id="billing-1") as producer:
        async with producer.transaction():
            await producer.send("invoices", b"value")

`read_arrow` and `write_arrow` move whole topics between a cluster and Arrow tables, without an event loop.

    from ottla.client import read_arrow, write_arrow

    table = read_arrow("orders", bootstrap_servers="localhost:9092").read_all()
    write_arrow(table, "orders-copy", bootstrap_servers="localhost:9092", compression="zstd")

`Admin`, `Producer` and `Consumer` take bootstrap servers or `ClientOptions`, or share one `ClusterClient`.
All errors are `ClientError`s; a `BrokerError` has Kafka's error code, the topic and the partition.

Packages: `core` (no I/O), `aio` (asyncio), `blocking` (sockets, Arrow), `admin`, `groups`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin
    from ottla.client.admin.cluster import (
        ELECT_PREFERRED,
        ELECT_UNCLEAN,
        SAFE_DOWNGRADE,
        UNSAFE_DOWNGRADE,
        UPGRADE,
    )
    from ottla.client.admin.types import (
        ClusterInfo,
        ConfigEntry,
        CreatedTopic,
        LogDirInfo,
        NewTopic,
        PartitionState,
        QuorumInfo,
        QuorumReplica,
        Reassignment,
        ReplicaSize,
        TopicState,
    )
    from ottla.client.aio.cluster import ClusterClient
    from ottla.client.aio.connection import Connection
    from ottla.client.aio.producer import Producer
    from ottla.client.aio.record_batches import Delivery
    from ottla.client.blocking.arrow_read import read_arrow
    from ottla.client.blocking.arrow_write import ArrowWriter, Written, write_arrow
    from ottla.client.blocking.cluster import SyncCluster, shared_cluster
    from ottla.client.blocking.groups import SyncGroup
    from ottla.client.blocking.transactions import SyncTransactions, end_transactions
    from ottla.client.consumer.consumer import Consumer, Start
    from ottla.client.consumer.membership import RebalanceListener
    from ottla.client.core.batches import ProducerId
    from ottla.client.core.consumer_state import ConsumedRecord, CorruptRecordsError
    from ottla.client.core.group_types import (
        CommittedOffset,
        GroupInfo,
        GroupListing,
        GroupMember,
        PartitionLag,
        Rebalance,
        RebalanceCause,
    )
    from ottla.client.core.metadata import Node, PartitionInfo, TopicInfo
    from ottla.client.core.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, OffsetAt
    from ottla.client.core.transaction_api import PreparedTransaction, TransactionHandle
    from ottla.client.core.transaction_types import (
        HangingTransaction,
        ProducerState,
        TransactionInfo,
        TransactionListing,
    )
    from ottla.client.errors import (
        BrokerError,
        ClientError,
        ClosedError,
        ConnectionFailedError,
        GroupNotEmptyError,
        NotKafkaError,
        OffsetOutOfRangeError,
        ProducerFencedError,
        RecordTooLargeError,
        RequestTimeoutError,
        TopicExistsError,
        TransactionFailedError,
        UnknownGroupError,
        UnknownTopicError,
        UnknownTransactionalIdError,
        UnsupportedApiError,
    )
    from ottla.client.options import ClientOptions, ClusterOptions, Partitioner

_HOMES = {
    "admin.client": ("Admin",),
    "admin.cluster": ("ELECT_PREFERRED", "ELECT_UNCLEAN", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE", "UPGRADE"),
    "admin.types": (
        "ClusterInfo",
        "ConfigEntry",
        "CreatedTopic",
        "LogDirInfo",
        "NewTopic",
        "PartitionState",
        "QuorumInfo",
        "QuorumReplica",
        "Reassignment",
        "ReplicaSize",
        "TopicState",
    ),
    "blocking.arrow_read": ("read_arrow",),
    "blocking.arrow_write": ("ArrowWriter", "Written", "write_arrow"),
    "aio.cluster": ("ClusterClient",),
    "aio.connection": ("Connection",),
    "consumer.consumer": ("Consumer", "Start"),
    "core.batches": ("ProducerId",),
    "core.consumer_state": ("ConsumedRecord", "CorruptRecordsError"),
    "errors": (
        "BrokerError",
        "ClientError",
        "ClosedError",
        "ConnectionFailedError",
        "GroupNotEmptyError",
        "NotKafkaError",
        "OffsetOutOfRangeError",
        "ProducerFencedError",
        "RecordTooLargeError",
        "RequestTimeoutError",
        "TopicExistsError",
        "TransactionFailedError",
        "UnknownGroupError",
        "UnknownTopicError",
        "UnknownTransactionalIdError",
        "UnsupportedApiError",
    ),
    "core.group_types": (
        "CommittedOffset",
        "GroupInfo",
        "GroupListing",
        "GroupMember",
        "PartitionLag",
        "Rebalance",
        "RebalanceCause",
    ),
    "consumer.membership": ("RebalanceListener",),
    "core.metadata": ("Node", "PartitionInfo", "TopicInfo"),
    "core.offsets": ("EARLIEST", "LATEST", "MAX_TIMESTAMP", "OffsetAt"),
    "aio.producer": ("Producer",),
    "aio.record_batches": ("Delivery",),
    "blocking.cluster": ("SyncCluster", "shared_cluster"),
    "options": ("ClientOptions", "ClusterOptions", "Partitioner"),
    "blocking.groups": ("SyncGroup",),
    "blocking.transactions": ("SyncTransactions", "end_transactions"),
    "core.transaction_api": ("PreparedTransaction", "TransactionHandle"),
    "core.transaction_types": (
        "HangingTransaction",
        "ProducerState",
        "TransactionInfo",
        "TransactionListing",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "EARLIEST",
    "ELECT_PREFERRED",
    "ELECT_UNCLEAN",
    "LATEST",
    "MAX_TIMESTAMP",
    "SAFE_DOWNGRADE",
    "UNSAFE_DOWNGRADE",
    "UPGRADE",
    "Admin",
    "ArrowWriter",
    "BrokerError",
    "ClientError",
    "ClientOptions",
    "ClosedError",
    "ClusterClient",
    "ClusterInfo",
    "ClusterOptions",
    "CommittedOffset",
    "ConfigEntry",
    "Connection",
    "ConnectionFailedError",
    "ConsumedRecord",
    "Consumer",
    "CorruptRecordsError",
    "CreatedTopic",
    "Delivery",
    "GroupInfo",
    "GroupListing",
    "GroupMember",
    "GroupNotEmptyError",
    "HangingTransaction",
    "LogDirInfo",
    "NewTopic",
    "Node",
    "NotKafkaError",
    "OffsetAt",
    "OffsetOutOfRangeError",
    "PartitionInfo",
    "PartitionLag",
    "PartitionState",
    "Partitioner",
    "PreparedTransaction",
    "Producer",
    "ProducerFencedError",
    "ProducerId",
    "ProducerState",
    "QuorumInfo",
    "QuorumReplica",
    "Reassignment",
    "Rebalance",
    "RebalanceCause",
    "RebalanceListener",
    "RecordTooLargeError",
    "ReplicaSize",
    "RequestTimeoutError",
    "Start",
    "SyncCluster",
    "SyncGroup",
    "SyncTransactions",
    "TopicExistsError",
    "TopicInfo",
    "TopicState",
    "TransactionFailedError",
    "TransactionHandle",
    "TransactionInfo",
    "TransactionListing",
    "UnknownGroupError",
    "UnknownTopicError",
    "UnknownTransactionalIdError",
    "UnsupportedApiError",
    "Written",
    "end_transactions",
    "read_arrow",
    "shared_cluster",
    "write_arrow",
]


def __getattr__(name: str) -> Any:
    """Import a name on first use: an admin script needs no codecs."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value

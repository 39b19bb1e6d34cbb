"""The admin client: one method per operation, delegated to a part per subject."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from ottla.client.admin.cluster import UPGRADE, ClusterAdmin, PartitionKey
from ottla.client.admin.configs import ConfigAdmin
from ottla.client.admin.groups import GroupAdmin
from ottla.client.admin.topics import TopicAdmin
from ottla.client.admin.transactions import FENCING_TIMEOUT_MS, MAX_TIMEOUT_MS, TransactionAdmin
from ottla.client.admin.types import (
    ClusterInfo,
    ConfigEntry,
    CreatedTopic,
    LogDirInfo,
    NewTopic,
    QuorumInfo,
    Reassignment,
    TopicState,
)
from ottla.client.aio.cluster import ClusterClient, ClusterHandle
from ottla.client.core.batches import ProducerId
from ottla.client.core.group_types import (
    CommittedOffset,
    GroupInfo,
    GroupListing,
    PartitionLag,
    TopicPartition,
)
from ottla.client.core.metadata import TopicInfo
from ottla.client.core.offsets import OffsetAt
from ottla.client.core.transaction_types import (
    HangingTransaction,
    ProducerState,
    TransactionInfo,
    TransactionListing,
)
from ottla.client.errors import BrokerError
from ottla.client.options import ClientOptions


class Admin:
    """Changes and describes a cluster.

    async with Admin("localhost:9092") as admin:
        await admin.create_topics([NewTopic("orders", partitions=3)])
    """

    def __init__(
        self,
        cluster: ClusterClient | ClientOptions | str | Sequence[str],
        *,
        client_id: str | None = None,
    ) -> None:
        self._handle = ClusterHandle(cluster, client_id=client_id)
        self.cluster = self._handle.cluster
        self._topics = TopicAdmin(self.cluster)
        self._configs = ConfigAdmin(self.cluster)
        self._groups = GroupAdmin(self.cluster)
        self._transactions = TransactionAdmin(self.cluster)
        self._replicas = ClusterAdmin(self.cluster)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._handle.close()

    # Offsets.

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAt]:
        """For each (topic, partition) the offset at a timestamp in ms, EARLIEST, LATEST or MAX_TIMESTAMP.

        Offset -1 means that no record is as late as the timestamp. With `read_committed`, LATEST is the last
        stable offset.
        """
        return await self.cluster.list_offsets(wanted, read_committed=read_committed)

    # Topics.

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = 30000
    ) -> list[CreatedTopic]:
        """Create topics. Raises the error of the first that could not be created; the others are created."""
        return await self._topics.create_topics(topics, validate_only=validate_only, timeout_ms=timeout_ms)

    async def wait_for_topic(self, name: str, partitions: int = 1, *, timeout_ms: float = 30000) -> TopicInfo:
        """Wait until a topic has that many partitions and each has a leader."""
        return await self._topics.wait_for_topic(name, partitions, timeout_ms=timeout_ms)

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicInfo]:
        """Every topic, by name."""
        return await self._topics.list_topics(include_internal=include_internal)

    async def describe_topics(self, names: Sequence[str]) -> list[TopicInfo]:
        """The current metadata of topics. Raises UnknownTopicError for the first that does not exist."""
        return await self._topics.describe_topics(names)

    async def delete_topics(self, names: Sequence[str], *, timeout_ms: int = 30000) -> None:
        """Delete topics. Raises the error of the first that could not be deleted; the others are deleted."""
        await self._topics.delete_topics(names, timeout_ms=timeout_ms)

    async def create_partitions(
        self, topic: str, total: int, *, validate_only: bool = False, timeout_ms: int = 30000
    ) -> None:
        """Raise the number of partitions of a topic to `total`."""
        await self._topics.create_partitions(topic, total, validate_only=validate_only, timeout_ms=timeout_ms)

    async def delete_records(
        self, topic: str, before: Mapping[int, int], *, timeout_ms: int = 30000
    ) -> dict[int, int]:
        """Delete the records below an offset (-1: all) of each partition; returns the new start offsets."""
        return await self._topics.delete_records(topic, before, timeout_ms=timeout_ms)

    async def describe_log_dirs(self, topics: Mapping[str, Sequence[int]] | None = None) -> list[LogDirInfo]:
        """The log directories of every broker with the sizes of these partitions (None: of all)."""
        return await self._topics.describe_log_dirs(topics)

    async def offsets_of(self, topic: str) -> dict[int, tuple[int, int]]:
        """The earliest and the latest offset of every partition."""
        return await self._topics.offsets_of(topic)

    # Configs.

    async def describe_topic_configs(
        self, names: Sequence[str], keys: Sequence[str] | None = None, *, documentation: bool = False
    ) -> dict[str, list[ConfigEntry]]:
        """The configs of topics, defaults included, by topic."""
        return await self._configs.describe_topic_configs(names, keys, documentation=documentation)

    async def describe_broker_configs(
        self, node_id: int, keys: Sequence[str] | None = None, *, documentation: bool = False
    ) -> list[ConfigEntry]:
        """The configs of one broker, as that broker reports them."""
        return await self._configs.describe_broker_configs(node_id, keys, documentation=documentation)

    async def alter_topic_configs(
        self,
        topic: str,
        *,
        values: Mapping[str, str] | None = None,
        unset: Iterable[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set some configs of a topic and reset others to their default; the rest is unchanged."""
        await self._configs.alter_topic_configs(
            topic, values=values, unset=unset, validate_only=validate_only
        )

    async def alter_broker_configs(
        self, node_id: int, *, values: Mapping[str, str] | None = None, unset: Iterable[str] = ()
    ) -> None:
        """Set dynamic configs of one broker."""
        await self._configs.alter_broker_configs(node_id, values=values, unset=unset)

    # Groups.

    async def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """The groups of the cluster by name, optionally only in these states and of these types.

        States are Kafka's ("Stable", "Empty", ...), types "classic" and "consumer"; case does not matter.
        """
        return await self._groups.list_groups(states, types)

    async def describe_groups(self, group_ids: Sequence[str], *, missing_ok: bool = False) -> list[GroupInfo]:
        """Members, assignments and state of groups of either type.

        Raises UnknownGroupError for the first that does not exist, unless `missing_ok` leaves it out.
        """
        return await self._groups.describe_groups(group_ids, missing_ok=missing_ok)

    async def describe_group(self, group_id: str) -> GroupInfo:
        return await self._groups.describe_group(group_id)

    async def delete_groups(self, group_ids: Sequence[str]) -> None:
        """Delete groups with their offsets. Raises the error of the first that could not be deleted.

        GroupNotEmptyError: it has members; UnknownGroupError: there is none.
        """
        await self._groups.delete_groups(group_ids)

    async def group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a group in these partitions (None: in all that have one).

        A group that does not exist has none: the result is empty, as in Kafka.
        """
        return await self._groups.group_offsets(group_id, partitions)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset | int]
    ) -> None:
        """Set the committed offsets of a group. Raises GroupNotEmptyError if it has members.

        A group that does not exist is created.
        """
        await self._groups.alter_group_offsets(group_id, offsets)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete the committed offsets of partitions that no member of the group reads."""
        await self._groups.delete_group_offsets(group_id, partitions)

    async def group_lag(
        self, group_id: str, *, members_read: Iterable[TopicPartition] = (), read_committed: bool = False
    ) -> list[PartitionLag]:
        """The lag of a group by partition: those with a committed offset, and `members_read`.

        With `read_committed`, a partition ends at its last stable offset.
        """
        return await self._groups.group_lag(
            group_id, members_read=members_read, read_committed=read_committed
        )

    async def group_lags(
        self, groups: Mapping[str, Iterable[TopicPartition]], *, read_committed: bool = False
    ) -> dict[str, list[PartitionLag]]:
        """The same for several groups, with one request for the ends of all partitions."""
        return await self._groups.group_lags(groups, read_committed=read_committed)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """The ends of partitions, without those that do not exist or have no leader."""
        return await self._groups.end_offsets(partitions, read_committed)

    async def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offsets of partitions, without those that do not exist or have no leader."""
        return await self._groups.start_offsets(partitions)

    # Transactions.

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Transactional ids by name, optionally filtered.

        Filters: states ("Ongoing", ...; case is ignored), producer ids, a minimum time since the start of
        the transaction, a regular expression for the name. The minimum time does not exclude ids without a
        transaction, and completed ones count from their start: add a state to list only open ones.
        """
        return await self._transactions.list_transactions(
            states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
        )

    async def describe_transactions(
        self, transactional_ids: Sequence[str], *, missing_ok: bool = False
    ) -> list[TransactionInfo]:
        """Raises UnknownTransactionalIdError for the first that does not exist; `missing_ok` skips those."""
        return await self._transactions.describe_transactions(transactional_ids, missing_ok=missing_ok)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerState]]:
        """The producer states at the leaders of these partitions."""
        return await self._transactions.describe_producers(partitions)

    async def fence_producers(
        self, transactional_ids: Sequence[str], *, timeout_ms: int = FENCING_TIMEOUT_MS
    ) -> dict[str, ProducerId]:
        """Abort the open transactions of these ids and fence their producers; returns the new ids and epochs.

        An id that does not exist is created.
        """
        return await self._transactions.fence_producers(transactional_ids, timeout_ms=timeout_ms)

    async def abort_transaction(self, topic: str, partition: int, producer: ProducerState) -> None:
        """End a hanging transaction in one partition without its coordinator.

        `producer` is a result of `describe_producers`. Only for transactions that no coordinator will end:
        otherwise it ends one partition of a transaction and not the others. `find_hanging_transactions` finds
        them; `fence_producers` ends other transactions.
        """
        await self._transactions.abort_transaction(topic, partition, producer)

    async def find_hanging_transactions(
        self, partitions: Iterable[TopicPartition] | None = None, *, max_timeout_ms: int = MAX_TIMEOUT_MS
    ) -> list[HangingTransaction]:
        """Transactions that are open in these partitions (None: in all) and that no coordinator will end.

        Nothing was written in them for longer than any transaction may last, and no coordinator has the
        partition in a transaction of that producer.
        """
        return await self._transactions.find_hanging_transactions(partitions, max_timeout_ms=max_timeout_ms)

    async def owner_of(self, producer_id: int) -> TransactionInfo | None:
        """The transactional id whose producer has this id."""
        return await self._transactions.owner_of(producer_id)

    # Cluster, replicas, features.

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterInfo:
        """The brokers of the cluster; with `include_fenced` also those that are registered but fenced."""
        return await self._replicas.describe_cluster(include_fenced=include_fenced)

    async def describe_quorum(self) -> QuorumInfo:
        """The metadata quorum as its leader, the active controller, sees it."""
        return await self._replicas.describe_quorum()

    async def describe_topic_partitions(self, names: Sequence[str]) -> dict[str, TopicState]:
        """Leaders, replicas and eligible leaders by topic; paginated where there are many.

        Raises UnknownTopicError for the first topic that does not exist, UnsupportedApiError where the
        brokers are too old (before Kafka 3.7).
        """
        return await self._replicas.describe_topic_partitions(names)

    async def elect_leaders(
        self, kind: int, partitions: Iterable[PartitionKey] | None = None, *, timeout_ms: int = 30000
    ) -> dict[PartitionKey, BrokerError | None]:
        """Elect leaders: ELECT_PREFERRED (first replica) or ELECT_UNCLEAN (any live one, may lose records).

        With None, all partitions are tried; the result has those that were elected or failed. It has an error
        or None for each; ELECTION_NOT_NEEDED means that nothing had to change.
        """
        return await self._replicas.elect_leaders(kind, partitions, timeout_ms=timeout_ms)

    async def alter_partition_reassignments(
        self,
        targets: Mapping[PartitionKey, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: int = 30000,
    ) -> dict[PartitionKey, BrokerError | None]:
        """Move partitions to these brokers, the preferred leader first; None cancels a running reassignment.

        Returns at once: `list_partition_reassignments` shows the progress. The result has an error or None
        for each partition.
        """
        return await self._replicas.alter_partition_reassignments(
            targets, allow_replication_factor_change=allow_replication_factor_change, timeout_ms=timeout_ms
        )

    async def list_partition_reassignments(
        self, partitions: Iterable[PartitionKey] | None = None, *, timeout_ms: int = 30000
    ) -> dict[PartitionKey, Reassignment]:
        """The running reassignments of these partitions (None: of all)."""
        return await self._replicas.list_partition_reassignments(partitions, timeout_ms=timeout_ms)

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: int = UPGRADE,
        validate_only: bool = False,
        timeout_ms: int = 30000,
    ) -> None:
        """Raise (or with another `upgrade_type` lower) feature levels of the cluster, all or none."""
        await self._replicas.update_features(
            levels, upgrade_type=upgrade_type, validate_only=validate_only, timeout_ms=timeout_ms
        )

    async def unregister_broker(self, node_id: int) -> None:
        """Remove the registration of a broker that will not return; it must be stopped."""
        await self._replicas.unregister_broker(node_id)

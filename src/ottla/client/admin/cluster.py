"""Brokers, metadata quorum, replica placement, leader election, features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.client.admin.types import (
    ClusterInfo,
    PartitionState,
    QuorumInfo,
    QuorumReplica,
    Reassignment,
    TopicState,
)
from ottla.client.aio.cluster import ClusterClient
from ottla.client.core.metadata import Node
from ottla.client.core.negotiation import Negotiated
from ottla.client.errors import BrokerError, UnsupportedApiError, broker_error, raise_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    alter_partition_reassignments_request,
    describe_quorum_request,
    describe_quorum_response,
    describe_topic_partitions_request,
    describe_topic_partitions_response,
    elect_leaders_request,
    list_partition_reassignments_request,
    update_features_request,
)
from ottla.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
)
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_cluster_response import DescribeClusterResponse
from ottla.protocol.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult
from ottla.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ottla.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from ottla.protocol.messages.update_features_response import UpdateFeaturesResponse
from ottla.protocol.versions import (
    ALTER_PARTITION_REASSIGNMENTS_KEEP_FACTOR_SINCE,
    DESCRIBE_CLUSTER_FENCED_BROKERS_SINCE,
    UPDATE_FEATURES_VALIDATE_ONLY_SINCE,
)

METADATA_TOPIC = "__cluster_metadata"

ELECT_PREFERRED = 0
ELECT_UNCLEAN = 1

UPGRADE = 1
SAFE_DOWNGRADE = 2
UNSAFE_DOWNGRADE = 3

PartitionKey = tuple[str, int]


def by_topic(partitions: Iterable[PartitionKey]) -> dict[str, list[int]]:
    """Partition numbers by topic."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


class ClusterAdmin:
    """Describes and changes how a cluster keeps its replicas."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterInfo:
        """The brokers of the cluster; with `include_fenced` also those that are registered but fenced."""

        def build(peer: Negotiated) -> DescribeClusterRequest:
            request = DescribeClusterRequest()
            supported = peer.version_for(request.API_KEY) >= DESCRIBE_CLUSTER_FENCED_BROKERS_SINCE
            request.include_fenced_brokers = include_fenced and supported
            return request

        try:
            response = await self._cluster.ask_any(build, DescribeClusterResponse)
        except UnsupportedApiError:
            await self._cluster.refresh([])
            view = self._cluster.view
            return ClusterInfo(view.cluster_id or "", view.controller_id, list(view.nodes.values()))
        raise_for(response.error_code, detail=response.error_message)
        nodes = [Node(row.broker_id, row.host, row.port, row.rack, row.is_fenced) for row in response.brokers]
        return ClusterInfo(response.cluster_id, response.controller_id, nodes)

    async def describe_quorum(self) -> QuorumInfo:
        """The metadata quorum as its leader, the active controller, sees it."""
        wire = describe_quorum_request
        request = wire.DescribeQuorumRequest(
            topics=[
                wire.TopicData(topic_name=METADATA_TOPIC, partitions=[wire.PartitionData(partition_index=0)])
            ]
        )

        async def attempt() -> QuorumInfo:
            response = await self._cluster.ask_any(request, describe_quorum_response.DescribeQuorumResponse)
            raise_for(response.error_code, detail=response.error_message or None)
            for topic in response.topics:
                for row in topic.partitions:
                    raise_for(row.error_code, topic=topic.topic_name, detail=row.error_message or None)
                    return _quorum(row)
            raise broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, detail="the response has no quorum")

        return await self._cluster.retrying(attempt)

    async def describe_topic_partitions(self, names: Sequence[str]) -> dict[str, TopicState]:
        """Leaders, replicas and eligible leaders by topic; paginated where there are many.

        Raises UnknownTopicError for the first topic that does not exist, UnsupportedApiError where the
        brokers are too old (before Kafka 3.7).
        """
        wire = describe_topic_partitions_request
        found: dict[str, TopicState] = {}
        cursor = None
        while True:
            request = wire.DescribeTopicPartitionsRequest(
                topics=[wire.TopicRequest(name=name) for name in sorted(names)], cursor=cursor
            )
            response = await self._cluster.ask_any(
                request, describe_topic_partitions_response.DescribeTopicPartitionsResponse
            )
            for topic in response.topics:
                name = topic.name or ""
                raise_for(topic.error_code, topic=name)
                state = found.setdefault(name, TopicState(name, topic.topic_id, topic.is_internal, {}))
                for row in topic.partitions:
                    state.partitions[row.partition_index] = _partition(row)
            following = response.next_cursor
            if following is None:
                return found
            cursor = wire.Cursor(topic_name=following.topic_name, partition_index=following.partition_index)

    async def elect_leaders(
        self, kind: int, partitions: Iterable[PartitionKey] | None = None, *, timeout_ms: int = 30_000
    ) -> dict[PartitionKey, BrokerError | None]:
        """Elect leaders: ELECT_PREFERRED (first replica) or ELECT_UNCLEAN (any live one, may lose records).

        With None, all partitions are tried; the result has those that were elected or failed. It has an error
        or None for each; ELECTION_NOT_NEEDED means that nothing had to change.
        """
        wire = elect_leaders_request
        rows = None
        if partitions is not None:
            rows = [
                wire.TopicPartitions(topic=topic, partitions=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]
        request = wire.ElectLeadersRequest(election_type=kind, topic_partitions=rows, timeout_ms=timeout_ms)
        response = await self._cluster.ask_controller(request, ElectLeadersResponse)
        raise_for(response.error_code)
        found: dict[PartitionKey, BrokerError | None] = {}
        for topic in response.replica_election_results:
            self._cluster.view.expire(topic.topic)
            for row in topic.partition_result:
                found[topic.topic, row.partition_id] = _error_of(row, topic.topic, row.partition_id)
        return found

    async def alter_partition_reassignments(
        self,
        targets: Mapping[PartitionKey, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: int = 30_000,
    ) -> dict[PartitionKey, BrokerError | None]:
        """Move partitions to these brokers, the preferred leader first; None cancels a running reassignment.

        Returns at once: `list_partition_reassignments` shows the progress. The result has an error or None
        for each partition.
        """
        wire = alter_partition_reassignments_request
        topics = []
        for topic, numbers in by_topic(targets).items():
            rows = []
            for number in numbers:
                replicas = targets[topic, number]
                rows.append(
                    wire.ReassignablePartition(
                        partition_index=number, replicas=None if replicas is None else list(replicas)
                    )
                )
            topics.append(wire.ReassignableTopic(name=topic, partitions=rows))

        def build(
            peer: Negotiated,
        ) -> alter_partition_reassignments_request.AlterPartitionReassignmentsRequest:
            request = wire.AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms)
            if peer.version_for(request.API_KEY) >= ALTER_PARTITION_REASSIGNMENTS_KEEP_FACTOR_SINCE:
                request.allow_replication_factor_change = allow_replication_factor_change
            return request

        response = await self._cluster.ask_controller(build, AlterPartitionReassignmentsResponse)
        raise_for(response.error_code, detail=response.error_message or None)
        found: dict[PartitionKey, BrokerError | None] = {}
        for answered in response.responses:
            self._cluster.view.expire(answered.name)
            for result in answered.partitions:
                index = result.partition_index
                found[answered.name, index] = _error_of(result, answered.name, index)
        return found

    async def list_partition_reassignments(
        self, partitions: Iterable[PartitionKey] | None = None, *, timeout_ms: int = 30_000
    ) -> dict[PartitionKey, Reassignment]:
        """The running reassignments of these partitions (None: of all)."""
        wire = list_partition_reassignments_request
        topics = None
        if partitions is not None:
            topics = [
                wire.ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]
        request = wire.ListPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms)
        response = await self._cluster.ask_controller(request, ListPartitionReassignmentsResponse)
        raise_for(response.error_code, detail=response.error_message or None)
        return {
            (topic.name, row.partition_index): Reassignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in response.topics
            for row in topic.partitions
        }

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: int = UPGRADE,
        validate_only: bool = False,
        timeout_ms: int = 30_000,
    ) -> None:
        """Raise (or with another `upgrade_type` lower) feature levels of the cluster, all or none."""
        wire = update_features_request

        def build(peer: Negotiated) -> update_features_request.UpdateFeaturesRequest:
            request = wire.UpdateFeaturesRequest(timeout_ms=timeout_ms)
            has_types = peer.version_for(request.API_KEY) >= UPDATE_FEATURES_VALIDATE_ONLY_SINCE
            if validate_only and not has_types:
                raise UnsupportedApiError(f"{peer.address}: the broker is too old to only validate features")
            request.validate_only = validate_only
            for name, level in levels.items():
                row = wire.FeatureUpdateKey(feature=name, max_version_level=level)
                if has_types:
                    row.upgrade_type = upgrade_type
                else:
                    row.allow_downgrade = upgrade_type != UPGRADE
                request.feature_updates.append(row)
            return request

        response = await self._cluster.ask_controller(build, UpdateFeaturesResponse)
        raise_for(response.error_code, detail=response.error_message or None)
        for result in response.results:
            detail = f"feature {result.feature}: {result.error_message or 'refused'}"
            raise_for(result.error_code, detail=detail)

    async def unregister_broker(self, node_id: int) -> None:
        """Remove the registration of a broker that will not return; it must be stopped."""
        request = UnregisterBrokerRequest(broker_id=node_id)
        response = await self._cluster.ask_controller(request, UnregisterBrokerResponse)
        raise_for(response.error_code, detail=f"broker {node_id}: {response.error_message or 'refused'}")


def _error_of(
    row: PartitionResult | ReassignablePartitionResponse, topic: str, partition: int
) -> BrokerError | None:
    if row.error_code == ErrorCode.NONE:
        return None
    return broker_error(row.error_code, topic=topic, partition=partition, detail=row.error_message or None)


def _quorum(row: describe_quorum_response.PartitionData) -> QuorumInfo:
    def replicas(rows: list[describe_quorum_response.ReplicaState]) -> list[QuorumReplica]:
        ends = {state.replica_id: state for state in row.current_voters}
        leader = ends.get(row.leader_id)
        end = leader.log_end_offset if leader is not None else row.high_watermark
        return [
            QuorumReplica(
                state.replica_id,
                state.replica_directory_id,
                state.log_end_offset,
                max(0, end - state.log_end_offset) if state.log_end_offset >= 0 else -1,
                state.last_fetch_timestamp,
                state.last_caught_up_timestamp,
            )
            for state in rows
        ]

    return QuorumInfo(
        row.leader_id,
        row.leader_epoch,
        row.high_watermark,
        replicas(row.current_voters),
        replicas(row.observers),
    )


def _partition(
    row: describe_topic_partitions_response.DescribeTopicPartitionsResponsePartition,
) -> PartitionState:
    return PartitionState(
        row.partition_index,
        row.leader_id,
        row.leader_epoch,
        tuple(row.replica_nodes),
        tuple(row.isr_nodes),
        tuple(row.eligible_leader_replicas or ()),
        tuple(row.last_known_elr or ()),
        tuple(row.offline_replicas),
        row.error_code,
    )

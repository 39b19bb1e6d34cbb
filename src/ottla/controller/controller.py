"""The controller: one decision per command, without I/O, clock or randomness of its own.

The caller appends the records of a decision to the metadata log, applies them to the image at once, so
that the next decision builds on them, and gives the reply when they are committed.

    decision = controller.decide_create_topics(request, now_ms)
    quorum.append(decision.records); controller.apply(decision.records); ... committed: decision.reply
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.config.load import BrokerConfig
from ottla.controller.context import Context
from ottla.controller.image import ClusterImage
from ottla.controller.image_parts import ImageDelta
from ottla.machines.outcome import Outcome
from ottla.protocol.message import Message

if TYPE_CHECKING:
    from ottla.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
    from ottla.protocol.messages.alter_configs_request import AlterConfigsRequest
    from ottla.protocol.messages.alter_partition_reassignments_request import (
        AlterPartitionReassignmentsRequest,
    )
    from ottla.protocol.messages.alter_partition_request import AlterPartitionRequest
    from ottla.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
    from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
    from ottla.protocol.messages.broker_registration_request import BrokerRegistrationRequest
    from ottla.protocol.messages.controller_registration_request import ControllerRegistrationRequest
    from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest
    from ottla.protocol.messages.create_topics_request import CreateTopicsRequest
    from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
    from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest
    from ottla.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
    from ottla.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
    from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
    from ottla.protocol.messages.update_features_request import UpdateFeaturesRequest


class Controller:
    """Decides on commands. `draw(n)` gives a random number below n, `new_uuid()` 16 random bytes."""

    __slots__ = ("_context", "image")

    def __init__(
        self,
        image: ClusterImage,
        config: BrokerConfig,
        *,
        cluster_id: str,
        draw: Callable[[int], int],
        new_uuid: Callable[[], bytes],
    ) -> None:
        self.image = image
        self._context = Context(image, config, cluster_id=cluster_id, draw=draw, new_uuid=new_uuid)

    def go_back_to(self, image: ClusterImage) -> None:
        """Forget what was applied but could not be appended: `image` is the committed one."""
        self.image = self._context.image = image

    def apply(self, records: Iterable[Message]) -> ImageDelta:
        """Takes over the records of a decision; the delta says what changed."""
        delta = ImageDelta()
        for record in records:
            self.image.apply(record, delta)
        return delta

    def decide_create_topics(self, request: CreateTopicsRequest, now_ms: int) -> Outcome:
        from ottla.controller.topics import decide_create_topics

        return decide_create_topics(self._context, request)

    def decide_delete_topics(self, request: DeleteTopicsRequest, now_ms: int) -> Outcome:
        from ottla.controller.topics import decide_delete_topics

        return decide_delete_topics(self._context, request)

    def decide_create_partitions(self, request: CreatePartitionsRequest, now_ms: int) -> Outcome:
        from ottla.controller.create_partitions import decide_create_partitions

        return decide_create_partitions(self._context, request)

    def decide_alter_configs(self, request: AlterConfigsRequest, now_ms: int) -> Outcome:
        from ottla.controller.configs import decide_alter_configs

        return decide_alter_configs(self._context, request)

    def decide_incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, now_ms: int
    ) -> Outcome:
        from ottla.controller.configs import decide_incremental_alter_configs

        return decide_incremental_alter_configs(self._context, request)

    def decide_allocate_producer_ids(self, request: AllocateProducerIdsRequest, now_ms: int) -> Outcome:
        from ottla.controller.producer_ids import decide_allocate_producer_ids

        return decide_allocate_producer_ids(self._context, request)

    def decide_register_broker(
        self,
        request: BrokerRegistrationRequest,
        now_ms: int,
        next_offset: int,
        *,
        lost_contact: bool = False,
    ) -> Outcome:
        from ottla.controller.brokers import decide_register_broker

        return decide_register_broker(self._context, request, now_ms, next_offset, lost_contact=lost_contact)

    def decide_broker_heartbeat(
        self, request: BrokerHeartbeatRequest, now_ms: int, next_offset: int | None = None
    ) -> Outcome:
        from ottla.controller.brokers import decide_broker_heartbeat

        return decide_broker_heartbeat(self._context, request, now_ms, next_offset)

    def decide_fence_silent_brokers(self, now_ms: int) -> Outcome:
        from ottla.controller.brokers import decide_fence_silent

        return decide_fence_silent(self._context, now_ms)

    def decide_fence_broker(self, broker_id: int, broker_epoch: int, now_ms: int) -> Outcome:
        from ottla.controller.brokers import decide_fence_broker

        return decide_fence_broker(self._context, broker_id, broker_epoch)

    def decide_unregister_broker(self, request: UnregisterBrokerRequest, now_ms: int) -> Outcome:
        from ottla.controller.brokers import decide_unregister_broker

        return decide_unregister_broker(self._context, request)

    def decide_alter_partition(self, request: AlterPartitionRequest, now_ms: int) -> Outcome:
        from ottla.controller.alter_partition import decide_alter_partition

        return decide_alter_partition(self._context, request)

    def decide_elect_leaders(self, request: ElectLeadersRequest, now_ms: int) -> Outcome:
        from ottla.controller.elect_leaders import decide_elect_leaders

        return decide_elect_leaders(self._context, request)

    def decide_alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, now_ms: int
    ) -> Outcome:
        from ottla.controller.reassignments import decide_alter_partition_reassignments

        return decide_alter_partition_reassignments(self._context, request)

    def decide_list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest, now_ms: int
    ) -> Outcome:
        from ottla.controller.reassignments import decide_list_partition_reassignments

        return decide_list_partition_reassignments(self._context, request)

    def decide_update_features(self, request: UpdateFeaturesRequest, now_ms: int) -> Outcome:
        from ottla.controller.update_features import decide_update_features

        return decide_update_features(self._context, request)

    def decide_assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest, now_ms: int) -> Outcome:
        from ottla.controller.assign_directories import decide_assign_replicas_to_dirs

        return decide_assign_replicas_to_dirs(self._context, request)

    def decide_register_controller(self, request: ControllerRegistrationRequest, now_ms: int) -> Outcome:
        from ottla.controller.controllers import decide_register_controller

        return decide_register_controller(self._context, request)

    def decide_balance_leaders(self, now_ms: int) -> Outcome:
        from ottla.controller.elect_leaders import decide_balance_leaders

        return decide_balance_leaders(self._context)

    def decide_elect_unclean(self, now_ms: int) -> Outcome:
        from ottla.controller.unclean import decide_elect_unclean

        return decide_elect_unclean(self._context)

    def decide_settle_min_isr(self, now_ms: int) -> Outcome:
        from ottla.controller.min_isr import decide_settle_min_isr

        return decide_settle_min_isr(self._context)

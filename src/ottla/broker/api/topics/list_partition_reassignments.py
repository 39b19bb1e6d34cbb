"""ListPartitionReassignments (46): the replica moves in progress."""

from __future__ import annotations

from ottla.broker.api.forwarding import controller_api
from ottla.controller.partitions.reassignments import decide_list_partition_reassignments
from ottla.protocol.api_keys import ApiKey

API = controller_api(ApiKey.LIST_PARTITION_REASSIGNMENTS, decide=decide_list_partition_reassignments)

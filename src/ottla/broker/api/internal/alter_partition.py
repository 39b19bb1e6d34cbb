"""AlterPartition (56): a leader changes the in-sync replicas of its partitions."""

from __future__ import annotations

from ottla.broker.api.forwarding import controller_api
from ottla.controller.partitions.alter_partition import decide_alter_partition
from ottla.protocol.api_keys import ApiKey

API = controller_api(ApiKey.ALTER_PARTITION, decide=decide_alter_partition)

"""AssignReplicasToDirs (73): a broker reports the log directories of its replicas."""

from __future__ import annotations

from ottla.broker.api.forwarding import controller_api
from ottla.controller.partitions.assign_directories import decide_assign_replicas_to_dirs
from ottla.protocol.api_keys import ApiKey

API = controller_api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, decide=decide_assign_replicas_to_dirs)

"""Whose directories these are: meta.properties ties them to one cluster and one node."""

from __future__ import annotations

from collections.abc import Callable

from ottla.protocol.uuids import uuid_to_text
from ottla.storage.checkpoints import MetaProperties
from ottla.storage.log_manager import LogManager


def settle_identity(logs: LogManager, node_id: int, new_uuid: Callable[[], bytes]) -> str:
    """The cluster id; fresh directories are given an identity, foreign ones are refused."""
    known = {log_dir.path: log_dir.meta for log_dir in logs.live_dirs() if log_dir.meta is not None}
    for path, meta in known.items():
        if meta.node_id != node_id:
            raise ValueError(
                f"{path} belongs to node.id={meta.node_id}, not {node_id}: "
                f"set node.id={meta.node_id} or choose another directory"
            )
    cluster_ids = {meta.cluster_id for meta in known.values()}
    if len(cluster_ids) > 1:
        listed = ", ".join(f"{path}: {meta.cluster_id}" for path, meta in known.items())
        raise ValueError(f"the log directories belong to different clusters ({listed})")
    cluster_id = cluster_ids.pop() if cluster_ids else uuid_to_text(new_uuid())
    for log_dir in logs.live_dirs():
        if log_dir.meta is None:
            logs.write_meta_properties(log_dir, MetaProperties(cluster_id, node_id, new_uuid()))
    return cluster_id

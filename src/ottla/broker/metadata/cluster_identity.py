"""Ties log directories to one cluster and one node: meta.properties."""

from __future__ import annotations

from collections.abc import Callable

from ottla.config.load import BrokerConfig
from ottla.protocol.uuids import uuid_to_text
from ottla.storage.checkpoints import MetaProperties
from ottla.storage.manager.log_manager import LogManager


def claim_directories(logs: LogManager, config: BrokerConfig, new_uuid: Callable[[], bytes]) -> str:
    """Return the cluster id. New directories get an identity; those of another cluster are refused."""
    node_id = config.node_id
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
    cluster_id = cluster_ids.pop() if cluster_ids else _new_cluster_id(config, new_uuid)
    configured = config.get("cluster.id")
    if configured is not None and configured != cluster_id:
        raise ValueError(
            f"the log directories belong to the cluster {cluster_id}, but cluster.id={configured}: "
            "leave cluster.id out or choose another directory"
        )
    for log_dir in logs.live_dirs():
        if log_dir.meta is None:
            logs.write_meta_properties(log_dir, MetaProperties(cluster_id, node_id, new_uuid()))
    return cluster_id


def _new_cluster_id(config: BrokerConfig, new_uuid: Callable[[], bytes]) -> str:
    configured = config.get("cluster.id")
    if configured is not None:
        return str(configured)
    generated = uuid_to_text(new_uuid())
    others = [voter for voter in config.voters if voter.node_id != config.node_id]
    if others or config.get("controller.quorum.bootstrap.servers"):
        raise ValueError(
            "cluster.id is not set, and the log directories are new: all nodes of a cluster need the same. "
            f"Set it on each of them, for example cluster.id={generated}"
        )
    return generated

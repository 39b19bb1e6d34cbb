"""Set-up of the metadata quorum from a node's configuration and log directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.listeners import parse_address
from ottla.controller.features import unsupported_features
from ottla.protocol.messages.feature_level_record import FeatureLevelRecord
from ottla.protocol.uuids import ZERO_UUID
from ottla.quorum.errors import QuorumError
from ottla.quorum.raft.config import RaftConfig
from ottla.quorum.raft.voters import NO_VOTERS, Endpoint, Voter, VoterSet
from ottla.quorum.raft_log import RaftLog
from ottla.quorum.settings import MetadataLogSettings
from ottla.storage.manager.log_manager import METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.config.load import BrokerConfig
    from ottla.storage.files import Files
    from ottla.storage.manager.log_manager import LogManager
    from ottla.storage.manager.managed_dir import ManagedDir

KRAFT_VERSION_MAX = 1


def open_raft_log(logs: LogManager, files: Files, config: BrokerConfig, now_ms: int) -> tuple[RaftLog, bytes]:
    """Open the metadata log; returns it with the id of its directory."""
    log_dir = _metadata_dir(logs, config)
    raft_log = RaftLog.open(
        files,
        log_dir,
        MetadataLogSettings(config),
        node_id=config.node_id,
        now_ms=now_ms,
        clean=log_dir.clean,
        recovery_point=log_dir.recovery_points.get((METADATA_TOPIC, 0)),
    )
    return raft_log, ZERO_UUID if log_dir.meta is None else log_dir.meta.directory_id


def _metadata_dir(logs: LogManager, config: BrokerConfig) -> ManagedDir:
    path = config.metadata_log_dir
    for log_dir in logs.dirs:
        if log_dir.path == path:
            if log_dir.error is not None:
                raise log_dir.error
            return log_dir
    raise ValueError(f"metadata.log.dir={path}: must be one of log.dirs ({', '.join(config.log_dirs)})")


def controller_addresses(config: BrokerConfig, ports: Mapping[str, int]) -> list[Endpoint]:
    """The advertised addresses of the controller listeners, or those that they are bound to."""
    advertised = {}
    for item in config.get("advertised.listeners") or ():
        name, _, address = item.partition("://")
        advertised[name.upper()] = address
    return [
        Endpoint(each.name, *parse_address("advertised.listeners", advertised[each.name]))
        if each.name in advertised
        else Endpoint(each.name, each.host or "localhost", ports[each.name])
        for each in config.controller_endpoints
    ]


def raft_config(
    config: BrokerConfig, cluster_id: str, directory_id: bytes, ports: Mapping[str, int]
) -> RaftConfig:
    """`ports`: the bound ports of the controller listeners, by name."""
    listeners = controller_addresses(config, ports)
    name = listeners[0].name if listeners else "CONTROLLER"
    bootstrap = [
        Endpoint(name, *parse_address("controller.quorum.bootstrap.servers", each))
        for each in config.get_list("controller.quorum.bootstrap.servers")
    ]
    return RaftConfig(
        node_id=config.node_id,
        cluster_id=cluster_id,
        directory_id=directory_id,
        can_vote=config.is_controller,
        static_voters=_static_voters(config, name),
        bootstrap=bootstrap,
        listeners=listeners,
        election_timeout_ms=config.get_int("controller.quorum.election.timeout.ms"),
        election_backoff_max_ms=config.get_int("controller.quorum.election.backoff.max.ms"),
        fetch_timeout_ms=config.get_int("controller.quorum.fetch.timeout.ms"),
        request_timeout_ms=config.get_int("controller.quorum.request.timeout.ms"),
        retry_backoff_ms=config.get_int("controller.quorum.retry.backoff.ms"),
        fetch_max_bytes=config.get_int("controller.quorum.fetch.max.bytes"),
        snapshot_chunk_bytes=config.get_int("controller.quorum.fetch.snapshot.max.bytes"),
        disconnect_grace_ms=config.get_int("broker.disconnect.grace.ms"),
    )


def _static_voters(config: BrokerConfig, listener_name: str) -> VoterSet:
    """controller.quorum.voters; without it, the controller is a quorum of one."""
    if config.voters:
        return VoterSet(
            Voter(each.node_id, endpoints=(Endpoint(listener_name, each.host, each.port),))
            for each in config.voters
        )
    if config.is_controller and not config.get_list("controller.quorum.bootstrap.servers"):
        return VoterSet([Voter(config.node_id)])
    return NO_VOTERS


def check_metadata(raft_log: RaftLog, config: RaftConfig) -> None:
    """Refuse metadata that this node must not use, before anything is written."""
    features: dict[str, int] = {}
    for _, _, record in raft_log.replay():
        if isinstance(record, FeatureLevelRecord):
            features[record.name] = record.feature_level
    problems = unsupported_features({name: level for name, level in features.items() if level})
    if problems:
        text = f"this version cannot serve the data in {raft_log.directory}: {'; '.join(problems)}"
        raise ValueError(text)
    history = raft_log.voter_history(config.static_voters)
    if history.kraft_version > KRAFT_VERSION_MAX:
        supported = f"this version supports 0 to {KRAFT_VERSION_MAX}"
        raise QuorumError(f"{raft_log.directory} has kraft.version={history.kraft_version}: {supported}")
    if history.kraft_version:
        return
    state = raft_log.quorum_state(alone=set(config.static_voters.by_id) == {config.node_id})
    known = () if state is None else state.voters
    configured = set(config.static_voters.by_id)
    if known and configured and set(known) != configured:
        voters, others = (", ".join(map(str, sorted(each))) for each in (known, configured))
        raise QuorumError(
            f"{raft_log.directory} belongs to a quorum of {voters}, not of {others}: "
            "see controller.quorum.voters"
        )

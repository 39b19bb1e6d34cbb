"""The plan of a cluster on one machine: ids, ports, roles and properties of its members.

Shared by `ottla cluster`, `ottla.testing.Cluster` and the benchmarks. It imports little: it is part of
start-up.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

HOST = "127.0.0.1"
# Distance of controller ports from client ports. It does not depend on the number of brokers, so a growing
# cluster keeps the addresses of its voters.
CONTROLLER_PORT_GAP = 100
BROKERS_MAX = CONTROLLER_PORT_GAP
VOTERS_MAX = 5
REPLICAS = 3

CLIENT_LISTENER = "PLAINTEXT"
PEER_LISTENER = "INTERNAL"
CONTROLLER_LISTENER = "CONTROLLER"

# Properties that the plan sets for every member; the user cannot override them.
PLANNED = (
    "node.id",
    "broker.id",
    "process.roles",
    "cluster.id",
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "controller.listener.names",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
)


class Member(NamedTuple):
    """The ports of one broker.

    `peer_port` is a listener for other brokers only, 0 for none. The advertised ports are those of proxies, 0
    without a proxy.
    """

    node_id: int
    client_port: int
    controller_port: int
    peer_port: int = 0
    advertised_client_port: int = 0
    advertised_controller_port: int = 0
    advertised_peer_port: int = 0


def voter_count(brokers: int) -> int:
    """Number of voters, always odd: one more voter would not tolerate more failures."""
    most = min(brokers, VOTERS_MAX)
    return most if most % 2 else most - 1


def planned_members(brokers: int, base_port: int) -> list[Member]:
    """Broker i serves clients on base_port + i; its controller listens CONTROLLER_PORT_GAP higher."""
    return [Member(i, base_port + i, base_port + CONTROLLER_PORT_GAP + i) for i in range(brokers)]


def new_cluster_id() -> str:
    """Return 22 characters of base64 that do not start with a dash, which would look like an option."""
    from ottla.protocol.uuids import uuid_to_text

    while True:
        text = uuid_to_text(os.urandom(16))
        if not text.startswith("-"):
            return text


def replication_defaults(brokers: int) -> dict[str, str]:
    """Defaults of a cluster: three replicas, min.insync.replicas=2."""
    replicas = min(REPLICAS, brokers)
    in_sync = max(1, replicas - 1)
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }


# As in Kafka's server.properties for development: no delay of the first rebalance.
ON_ONE_MACHINE = {"group.initial.rebalance.delay.ms": "0"}


def member_properties(
    member: Member,
    members: Sequence[Member],
    *,
    cluster_id: str,
    data_dir: str,
    settings: Mapping[str, str],
) -> dict[str, str]:
    """Return all properties of a member; `settings` override the defaults of a cluster."""
    voters = members[: voter_count(len(members))]
    listeners = [f"{CLIENT_LISTENER}://{HOST}:{member.client_port}"]
    advertised = [f"{CLIENT_LISTENER}://{HOST}:{member.advertised_client_port or member.client_port}"]
    properties = {**replication_defaults(len(members)), **ON_ONE_MACHINE, **settings}
    if member.peer_port:
        listeners.append(f"{PEER_LISTENER}://{HOST}:{member.peer_port}")
        advertised.append(f"{PEER_LISTENER}://{HOST}:{member.advertised_peer_port or member.peer_port}")
        properties["inter.broker.listener.name"] = PEER_LISTENER
    roles = "broker"
    if member in voters:
        roles = "broker,controller"
        listeners.append(f"{CONTROLLER_LISTENER}://{HOST}:{member.controller_port}")
        advertised.append(
            f"{CONTROLLER_LISTENER}://{HOST}:{member.advertised_controller_port or member.controller_port}"
        )
    if advertised != listeners:
        properties["advertised.listeners"] = ",".join(advertised)
    names = (CLIENT_LISTENER, PEER_LISTENER, CONTROLLER_LISTENER)
    return properties | {
        "node.id": str(member.node_id),
        "process.roles": roles,
        "cluster.id": cluster_id,
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
        "controller.listener.names": CONTROLLER_LISTENER,
        "controller.quorum.voters": ",".join(
            f"{voter.node_id}@{HOST}:{voter.advertised_controller_port or voter.controller_port}"
            for voter in voters
        ),
        "log.dirs": data_dir,
    }

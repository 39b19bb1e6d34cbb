"""Who the members of a cluster on one machine are: ids, ports, roles, and the properties each is given.

Shared by `ottla cluster` and by `ottla.testing.Cluster`. Light imports only: it is on the way to a start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

HOST = "127.0.0.1"
# Controller listeners lie this far above the client ports, whatever the number of brokers: a cluster that
# grows keeps the addresses of its voters.
CONTROLLER_PORT_GAP = 100
BROKERS_MAX = CONTROLLER_PORT_GAP
VOTERS_MAX = 5
REPLICAS = 3

CLIENT_LISTENER = "PLAINTEXT"
PEER_LISTENER = "INTERNAL"
CONTROLLER_LISTENER = "CONTROLLER"

# What the plan decides for every member: a value from outside would tear the cluster apart.
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
    """One broker: where it listens, and where the others are told to find it.

    `peer_port` is a listener for the other brokers alone, 0 for none; the `told` ports are those of whoever
    forwards to the real ones, 0 where nobody stands between.
    """

    node_id: int
    client_port: int
    controller_port: int
    peer_port: int = 0
    told_client_port: int = 0
    told_controller_port: int = 0
    told_peer_port: int = 0


def voter_count(brokers: int) -> int:
    """How many members vote: an odd number, since an even one survives no more deaths than the odd below."""
    most = min(brokers, VOTERS_MAX)
    return most if most % 2 else most - 1


def planned_members(brokers: int, base_port: int) -> list[Member]:
    """Broker i serves clients on base_port + i; its controller listens CONTROLLER_PORT_GAP above."""
    return [Member(i, base_port + i, base_port + CONTROLLER_PORT_GAP + i) for i in range(brokers)]


def new_cluster_id() -> str:
    """22 characters of base64; none begins with a dash, which would look like an option."""
    from ottla.protocol.uuids import uuid_to_text

    while True:
        text = uuid_to_text(os.urandom(16))
        if not text.startswith("-"):
            return text


def replication_defaults(brokers: int) -> dict[str, str]:
    """What people expect of several brokers: three copies, and two of them before acks=all is answered."""
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


# As Kafka's own file for development has it: a new classic group waits for nobody.
ON_ONE_MACHINE = {"group.initial.rebalance.delay.ms": "0"}


def member_properties(
    member: Member,
    members: Sequence[Member],
    *,
    cluster_id: str,
    data_dir: str,
    settings: Mapping[str, str],
) -> dict[str, str]:
    """The whole configuration of a member; `settings` win over the defaults for several brokers."""
    voters = members[: voter_count(len(members))]
    listeners = [f"{CLIENT_LISTENER}://{HOST}:{member.client_port}"]
    told = [f"{CLIENT_LISTENER}://{HOST}:{member.told_client_port or member.client_port}"]
    found = {**replication_defaults(len(members)), **ON_ONE_MACHINE, **settings}
    if member.peer_port:
        listeners.append(f"{PEER_LISTENER}://{HOST}:{member.peer_port}")
        told.append(f"{PEER_LISTENER}://{HOST}:{member.told_peer_port or member.peer_port}")
        found["inter.broker.listener.name"] = PEER_LISTENER
    roles = "broker"
    if member in voters:
        roles = "broker,controller"
        listeners.append(f"{CONTROLLER_LISTENER}://{HOST}:{member.controller_port}")
        told.append(f"{CONTROLLER_LISTENER}://{HOST}:{member.told_controller_port or member.controller_port}")
    if told != listeners:
        found["advertised.listeners"] = ",".join(told)
    names = (CLIENT_LISTENER, PEER_LISTENER, CONTROLLER_LISTENER)
    return found | {
        "node.id": str(member.node_id),
        "process.roles": roles,
        "cluster.id": cluster_id,
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
        "controller.listener.names": CONTROLLER_LISTENER,
        "controller.quorum.voters": ",".join(
            f"{voter.node_id}@{HOST}:{voter.told_controller_port or voter.controller_port}"
            for voter in voters
        ),
        "log.dirs": data_dir,
    }

"""A node that is told of others refuses to start rather than to lead without them."""

from __future__ import annotations

import pytest

from ottla.broker.broker import Broker
from ottla.config.definitions import ConfigError
from ottla.config.load import broker_config

ALONE = {"node.id": "1", "process.roles": "broker,controller"}


@pytest.mark.parametrize(
    "settings",
    [
        {**ALONE, "controller.quorum.voters": "1@localhost:9093,2@localhost:9094"},
        {"node.id": "2", "process.roles": "broker", "controller.quorum.voters": "1@localhost:9093"},
        {"node.id": "1", "process.roles": "controller", "listeners": "CONTROLLER://localhost:9093",
         "controller.listener.names": "CONTROLLER", "controller.quorum.voters": "1@localhost:9093"},
    ],
)  # fmt: skip
def test_members_of_clusters_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="one node"):
        Broker(broker_config(settings))


def test_a_voter_that_is_itself_is_fine() -> None:
    settings = {
        **ALONE,
        "listeners": "PLAINTEXT://localhost:0,CONTROLLER://localhost:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
    }
    assert Broker(broker_config(settings)).node_id == 1

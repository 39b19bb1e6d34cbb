"""Real brokers for tests: a cluster as a context manager and pytest fixtures.

    from ottla.testing import Cluster

    with Cluster() as cluster:
        print(cluster.bootstrap_servers)

The pytest fixtures `ottla_cluster`, `ottla_cluster_of_three` and `ottla_topic` come with the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.cluster import Cluster
    from ottla.testing.process_node import BrokerError

__all__ = ["BrokerError", "Cluster"]

_HOMES = {"Cluster": "ottla.testing.cluster", "BrokerError": "ottla.testing.process_node"}


def __getattr__(name: str) -> Any:
    """Resolve the public names on first use: the pytest plugin imports this package in every test run."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)

"""A topic, a producer load and group members for one test, stopped at its end."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from ottla.client import GroupInfo
from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for
from tests.support.groups_e2e.history import Load, until_read
from tests.support.groups_e2e.reader import PROTOCOLS, Reader, ReaderProcess, Watched

QUICK = {
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 500,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": 8000,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 200,
}


class GroupRun:
    def __init__(
        self, cluster: Cluster, protocol: str, test_name: str, partitions: int = 12, **settings: Any
    ) -> None:
        self.cluster = cluster
        self.topic = topic_name_for(test_name)
        self.partitions = partitions
        self.members: list[Watched] = []
        self._settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            **PROTOCOLS[protocol],
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        if protocol == "consumer":
            self._settings.pop("session.timeout.ms", None)  # set by the broker
        cluster.create_topic(self.topic, partitions)
        self.load = Load(cluster.bootstrap_servers, self.topic, partitions)

    def join(self, instance: str | None = None, *, group: str | None = None) -> Reader:
        member = Reader(self._settings_of(instance, group), self.topic)
        self.members.append(member)
        return member

    def join_process(self) -> ReaderProcess:
        """Add a member that runs in a separate process, so that it can be killed."""
        member = ReaderProcess(self._settings_of(None, None), self.topic)
        self.members.append(member)
        return member

    def _settings_of(self, instance: str | None, group: str | None) -> dict[str, Any]:
        named = {"group.id": group or self.topic, "client.id": f"m{len(self.members)}-{instance or ''}"}
        if instance:
            named["group.instance.id"] = instance
        return {**self._settings, **named}

    def settle(self, members: int) -> GroupInfo:
        return self.cluster.wait_for_group(self.topic, members, timeout_s=20)

    def finish(self, *groups: str) -> set[tuple[int, int]]:
        """Stop the load, read to the end and leave; all groups have then committed the end offsets."""
        written = self.load.stop()
        assert written
        until_read(self.members, written)
        self._stop_all()
        for group in groups or (self.topic,):
            self.cluster.wait_for_lag(group, 0, timeout_s=10)
        return written

    def _stop_all(self) -> None:
        for member in self.members:
            if isinstance(member, Reader):
                member.begin_to_stop()
        for member in self.members:
            member.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.load.stop()
        self._stop_all()

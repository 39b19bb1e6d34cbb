"""A quorum of one on a file system in memory, and one on the real one."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from ottla.config.load import broker_config
from ottla.controller.features import bootstrap_records
from ottla.controller.image.cluster import ClusterImage
from ottla.controller.image.records import image_records
from ottla.protocol.messages.topic_record import TopicRecord
from ottla.quorum.raft_log import RaftLog
from ottla.quorum.settings import MetadataLogSettings
from ottla.storage.files import Files
from ottla.testing.files import FaultyFiles
from tests.support.quorum.single_voter import Alone

DIRECTORY = "/data/__cluster_metadata-0"


class Node:
    """Opens, replays and reopens the quorum; keeps the image that follows from it."""

    def __init__(
        self, files: Files, root: str = "/data", *, directory_id: bytes = bytes(16), **config: str
    ) -> None:
        self.files = files
        self.directory_id = directory_id
        self.root = root
        self.config = {name.replace("_", "."): value for name, value in config.items()}
        self.now_ms = 1_000_000
        files.mkdir(root)
        files.sync_dir(root.rpartition("/")[0])
        self.open()

    def open(self, *, node_id: int = 1, **options: Any) -> Alone:
        """Lead, if this node may; the only voter needs no more than its first step for it."""
        self.now_ms += 1000
        raft_log = RaftLog.open(
            self.files,
            self.root,
            MetadataLogSettings(broker_config(self.config)),
            node_id=node_id,
            now_ms=self.now_ms,
            **options,
        )
        self.quorum = Alone(raft_log, node_id, self.now_ms, directory_id=self.directory_id)
        self.replay()
        if not self.image.features and self.quorum.role == "leader":
            self.quorum.append(bootstrap_records()[:1], self.now_ms)
            self.replay()
        return self.quorum

    def replay(self) -> None:
        """What a start would find now."""
        self.image = ClusterImage()
        self.replayed = list(self.quorum.replay())
        for _, _, message in self.replayed:
            self.image.apply(message)

    def create(self, *names: str) -> tuple[int, int]:
        records = [TopicRecord(name=name, topic_id=hashlib.md5(name.encode()).digest()) for name in names]
        offsets = self.quorum.append(records, self.now_ms)
        for record in records:
            self.image.apply(record)
        return offsets

    def snapshot(self) -> None:
        self.quorum.sync(self.now_ms)
        job = self.quorum.maybe_snapshot(lambda: image_records(self.image), self.now_ms, force=True)
        assert job is not None
        job.run()
        self.quorum.finish_snapshot(job, self.now_ms)

    @property
    def topics(self) -> set[str]:
        return set(self.image.topics_by_name)


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def node(files: FaultyFiles) -> Node:
    return Node(files)


@pytest.fixture
def new_node() -> type[Node]:
    return Node

"""Data of a cluster with unsupported features: refused, and left unchanged."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ottla.config.load import broker_config
from ottla.protocol.messages.feature_level_record import FeatureLevelRecord
from ottla.quorum.quorum_state import QuorumState
from ottla.quorum.raft_log import RaftLog
from ottla.quorum.settings import MetadataLogSettings
from ottla.storage.files import OsFiles
from ottla.testing import Cluster
from ottla.testing.process_node import BrokerError


def test_a_refused_start_writes_nothing_into_the_metadata_log(tmp_path: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    settings = MetadataLogSettings(broker_config({}))
    raft_log = RaftLog.open(OsFiles(), str(tmp_path), settings, node_id=1, now_ms=now_ms)
    raft_log.persist(QuorumState(leader_id=1, leader_epoch=1, voters=[1]))
    raft_log.epoch = 1
    raft_log.append([FeatureLevelRecord(name="feature.to.come", feature_level=1)], now_ms)
    raft_log.close(now_ms)
    watched = [tmp_path / "__cluster_metadata-0" / name for name in ("quorum-state", f"{0:020d}.log")]
    before = [path.read_bytes() for path in watched]
    with pytest.raises(BrokerError, match=r"feature\.to\.come=1"):
        Cluster(data_dir=tmp_path).start()
    assert [path.read_bytes() for path in watched] == before

from __future__ import annotations

import pytest

from tests.support.replication.memory_log import MemoryLog


@pytest.fixture(scope="session")
def new_log() -> type[MemoryLog]:
    """new_log([(epoch, value), ...], start=0)"""
    return MemoryLog

"""Search in a transaction index with many entries."""

from __future__ import annotations

import pytest

from ottla.storage.index.txn_index import READ_AT_ONCE, AbortedTransaction, TxnIndex
from ottla.testing.files import FaultyFiles


@pytest.mark.parametrize("count", [0, 1, 2, READ_AT_ONCE, 3 * READ_AT_ONCE + 7])
def test_entries_from_an_offset(count: int) -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    index = TxnIndex(files, "/data/0.txnindex", 0)
    for number in range(count):
        index.append(AbortedTransaction(number, 10 * number, 10 * number + 9, 10 * number + 10))
    stored = index.entries()
    assert len(stored) == count
    for offset in (0, 1, 9, 10, 11, 10 * count // 2, 10 * count - 1, 10 * count, 10 * count + 5):
        assert list(index.entries_from(offset)) == [each for each in stored if each.last_offset >= offset]

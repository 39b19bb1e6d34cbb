"""Whether the transactions of a batch can still be committed: checked before the batch is decided.

Without two-phase commit a transaction has a time-out that starts with its first record. A batch whose other
tasks take longer than that would be decided with transactions that the coordinator has aborted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from ottla.client import SyncTransactions, TransactionHandle, TransactionInfo
from ottla.client.errors import UnsupportedApiError

# What it takes to decide a batch and to commit its transactions, with the fail-over of a broker in between.
# Short time-outs leave a share of their own.
SPARE_MS_MAX = 60_000
SPARE_SHARE = 0.25

logger = logging.getLogger("pyspark_ottla")


class BatchExpiredError(RuntimeError):
    """A batch took longer than its transactions may stay open. Nothing of it is committed: repeat it."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def check_time_left(
    transactions: SyncTransactions, handles: Sequence[TransactionHandle], what: str, *, kept: bool = False
) -> None:
    """Raise BatchExpiredError unless all transactions are open, and remain so for the time of a commit.

    Transactions that wait for their end without a time-out are looked at only if `kept` is set.
    """
    checked = [handle for handle in handles if kept or not handle.waits]
    if not checked:
        return
    try:
        found = transactions.describe([handle.transactional_id for handle in checked])
    except UnsupportedApiError as error:
        logger.warning("%s: cannot see whether its transactions are still open: %s", what, error)
        return
    reasons = [_reason(handle, found.get(handle.transactional_id)) for handle in checked]
    expired = [reason for reason in reasons if reason is not None]
    if expired:
        raise BatchExpiredError(
            f"{what} is not committed, because {len(expired)} of its {len(handles)} transactions cannot wait "
            f"for it: {expired[0]}. Nothing of it is visible, and it is safe to repeat it. To give batches "
            "more time increase kafka.transaction.timeout.ms (at most transaction.max.timeout.ms of the "
            "brokers), or enable two-phase commit on the brokers (transaction.two.phase.commit.enable=true)"
        )


def _reason(handle: TransactionHandle, info: TransactionInfo | None) -> str | None:
    """Why a transaction cannot be committed; None if it can."""
    name = handle.transactional_id
    if info is None:
        return f"the coordinator does not know {name!r}"
    # A prepared transaction has other numbers at the coordinator than in its handle.
    is_other = not handle.waits and (info.producer_id, info.producer_epoch) != handle.producer
    if not info.is_ongoing or is_other:
        return f"that of {name!r} is no longer open, probably because of its time-out"
    if handle.waits or not info.has_timeout:
        return None
    spare_ms = min(SPARE_MS_MAX, info.timeout_ms * SPARE_SHARE)
    left_ms = info.started_ms + info.timeout_ms - now_ms()
    if left_ms < spare_ms:
        return (
            f"that of {name!r} has a time-out of {info.timeout_ms} ms and, by the clock of this machine, "
            f"{left_ms:g} ms left, less than {spare_ms:g}"
        )
    return None

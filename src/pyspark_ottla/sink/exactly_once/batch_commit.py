"""The driver side: append the marker of a batch, end its transactions, abort those of other attempts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.client import SyncTransactions, TransactionHandle, shared_cluster
from ottla.client.errors import BrokerError, ClientError
from pyspark_ottla.checkpoints import CheckpointBehindError
from pyspark_ottla.sink.exactly_once.commit_log import CommitLog, FencedError, MarkerWriter, marker_writer
from pyspark_ottla.sink.exactly_once.marker import Marker, not_in_marker, transaction_prefix
from pyspark_ottla.sink.exactly_once.time_left import BatchExpiredError, check_time_left
from pyspark_ottla.sink.options import SinkOptions

TRIES_MAX = 5
# How often a driver looks for leftover transactions in batches without rows. Attempts that run while their
# batch is committed may leave some.
SWEEP_INTERVAL_S = 10.0

Result = TypeVar("Result")

logger = logging.getLogger("pyspark_ottla")


class LostBatchError(RuntimeError):
    """A batch has a marker, but its transactions cannot be committed."""


class BatchAttempt:
    """The transactions that the tasks of one batch have prepared, in one run of a query."""

    def __init__(self, key: str, run: str, batch: int, handles: Sequence[TransactionHandle]) -> None:
        self.key = key
        self.run = run
        self.batch = batch
        self.handles = tuple(handles)

    def __str__(self) -> str:
        return f"query {self.key}: batch {self.batch}"


class BatchCommitter:
    """Commits or aborts the batches of one sink."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.transactions = SyncTransactions(shared_cluster(options.cluster))

    # Commit.

    def commit(self, attempt: BatchAttempt) -> bool:
        """Commit a batch. Returns False if an earlier attempt of it was committed already."""
        markers = self._marker_writer(attempt.key)
        fenced = 0

        def act() -> bool:
            nonlocal fenced
            fenced += 1
            # The driver that fenced this one may have aborted its transactions, those without a time-out too.
            return self._commit(markers, attempt, was_fenced=fenced > 1)

        return _retry_when_fenced(act)

    def _commit(self, markers: MarkerWriter, attempt: BatchAttempt, *, was_fenced: bool) -> bool:
        if not attempt.handles and not self._is_sweep_due(markers, attempt):
            return True  # an empty batch needs no marker
        marker = markers.marker()
        check_order(self.options, attempt.key, marker, attempt.batch)
        if marker is not None and not marker.done:
            self.roll_forward(attempt.key, marker)
            marker = marker._replace(done=True)
            markers.append(marker)
        if marker is not None and marker.batch >= attempt.batch:
            logger.warning("query %s: batch %s is committed already", attempt.key, attempt.batch)
            self.abort_all(not_in_marker(attempt.handles, marker))
            return False
        # List them before the marker is appended: transactions open now belong to this batch or an earlier
        # one, also if another driver runs the query.
        leftovers = self._leftovers(markers, attempt)
        if attempt.handles:
            try:
                check_time_left(self.transactions, attempt.handles, str(attempt), kept=was_fenced)
            except BatchExpiredError:
                markers.check_not_fenced()  # another driver may have aborted them, and committed the batch
                raise
            marker = Marker(attempt.batch, attempt.handles)
            markers.append(marker)
            self.roll_forward(attempt.key, marker)
            markers.append(marker._replace(done=True))
        elif leftovers:
            markers.check_not_fenced()
        self._abort_leftovers(leftovers, markers)
        return True

    def roll_forward(self, key: str, marker: Marker) -> None:
        """Commit the transactions of a marker; those committed already are ignored. Raises LostBatchError."""
        results = self.transactions.end(marker.winners, commit=True)
        refused = [result for result in results.values() if isinstance(result, BrokerError)]
        if not refused:
            return
        text = (
            f"query {key}: batch {marker.batch} has a commit marker, but {len(refused)} of its "
            f"{len(marker.winners)} transactions cannot be committed: {refused[0]}. They probably timed out "
            "first, and their rows are lost. Two-phase commit on the brokers "
            "(transaction.two.phase.commit.enable=true) prevents this."
        )
        if self.options.accept_lost_batch == marker.batch:
            logger.error("%s Continuing, because the option acceptLostBatch is set.", text)
            return
        raise LostBatchError(
            f"{text} To continue without these rows, set the option acceptLostBatch to {marker.batch}."
        )

    # Abort.

    def abort(self, attempt: BatchAttempt) -> None:
        """Abort prepared transactions, unless they have a marker: the commit may have failed after that."""
        markers = self._marker_writer(attempt.key)
        # Fencing makes brokers refuse a marker that is still in flight: if there is none now, none will
        # appear.
        marker = _retry_when_fenced(lambda: markers.marker(fence=True))
        losers = not_in_marker(attempt.handles, marker)
        self.abort_all(losers)
        has_marker = marker is not None and len(losers) < len(attempt.handles)
        if not has_marker:
            prefix = transaction_prefix(attempt.key, attempt.run)
            self._abort_leftovers(self.transactions.open_ids(prefix, all_brokers=False))

    def abort_all(self, handles: Sequence[TransactionHandle]) -> None:
        """Abort transactions. A refused abort means that the transaction has ended already."""
        if handles:
            self.transactions.end(handles, commit=False)

    # Leftovers.

    def _is_sweep_due(self, markers: MarkerWriter, attempt: BatchAttempt) -> bool:
        elapsed_s = time.monotonic() - markers.swept_at_s
        return markers.swept_run != attempt.run or elapsed_s > SWEEP_INTERVAL_S

    def _leftovers(self, markers: MarkerWriter, attempt: BatchAttempt) -> list[str]:
        """List open transactions of failed or speculative attempts.

        In every batch with rows, because there may be none after it for long, and readers would wait: Spark
        does not notify the driver of a speculative attempt that lost.
        """
        try:
            found = self.transactions.open_ids(transaction_prefix(attempt.key), all_brokers=False)
        except ClientError as error:
            logger.warning("query %s: cannot list leftover transactions: %s", attempt.key, error)
            markers.swept_run = None
            return []
        markers.swept_run, markers.swept_at_s = attempt.run, time.monotonic()
        own = dict.fromkeys(handle.transactional_id for handle in attempt.handles)
        return [name for name in found if name not in own]

    def _abort_leftovers(self, names: Sequence[str], markers: MarkerWriter | None = None) -> None:
        for name in names:
            try:
                self.transactions.fence(name)
            except ClientError as error:
                # The next batch tries again; no marker will ever name the transaction.
                logger.warning("cannot abort the transaction of %s: %s", name, error)
                if markers is not None:
                    markers.swept_run = None

    def _marker_writer(self, key: str) -> MarkerWriter:
        return marker_writer(self.options.cluster, self.options.commit_topic, key)


def _retry_when_fenced(attempt: Callable[[], Result]) -> Result:
    for tries_left in reversed(range(TRIES_MAX)):
        try:
            return attempt()
        except FencedError:
            if not tries_left:
                raise
    raise AssertionError("unreachable: the last try returns or raises")


def check_order(options: SinkOptions, key: str, marker: Marker | None, batch: int) -> None:
    """Raise CheckpointBehindError for a batch before the last: Spark repeats at most the last batch."""
    if marker is not None and marker.batch > batch and not options.skips_earlier:
        raise CheckpointBehindError(
            f"query {key}: cannot write batch {batch}, because batch {marker.batch} is committed already: "
            "the checkpoint is older than the output. Start with a new checkpoint or, to write these batches "
            f"again, produce a null value with the key {key} to the topic {options.commit_topic!r}."
        )


def end_job(options: SinkOptions, handles: Sequence[TransactionHandle], prefix: str, *, commit: bool) -> None:
    """End the transactions of a batch job without txnAppId: it is never repeated, so it needs no marker."""
    transactions = SyncTransactions(shared_cluster(options.cluster))
    leftovers = transactions.open_ids(prefix, all_brokers=False)
    if commit:
        check_time_left(transactions, handles, "the job")
    refused = [
        result
        for result in transactions.end(handles, commit=commit).values()
        if isinstance(result, BrokerError)
    ]
    own = dict.fromkeys(handle.transactional_id for handle in handles)
    for name in leftovers:
        if name not in own:
            transactions.fence(name)
    if refused and commit:
        raise LostBatchError(
            f"{len(refused)} of {len(handles)} transactions of the job could not be committed "
            f"({refused[0]}); the others were committed"
        )


def last_marker(options: SinkOptions, key: str) -> Marker | None:
    """Return the latest marker of a query, without fencing other drivers."""
    return CommitLog(shared_cluster(options.cluster), options.commit_topic).last(key)

"""What the driver does: decide on a batch, end its transactions, clear up after other attempts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.client import SyncTransactions, TransactionHandle, shared_cluster
from ottla.client.errors import BrokerError, ClientError
from pyspark_ottla.sink.exactly_once.commit_log import CommitLog, FencedError, MarkerWriter, marker_writer
from pyspark_ottla.sink.exactly_once.marker import Marker, not_in_marker, transaction_prefix
from pyspark_ottla.sink.options import SinkOptions

TRIES_MAX = 5
# Speculative attempts that lost are not told to the driver, so it looks for them now and then.
SWEEP_INTERVAL_S = 10.0

Result = TypeVar("Result")

logger = logging.getLogger("pyspark_ottla")


class LostBatchError(RuntimeError):
    """A batch was decided, and what it decided on is gone."""


class CheckpointBehindError(RuntimeError):
    """The batch comes after others of a higher number: the checkpoint is not the one that the sink knows."""


class BatchAttempt:
    """What tasks told the driver of one batch: the handles of transactions, all under one query and run."""

    def __init__(
        self, key: str, run: str, batch: int, handles: Sequence[TransactionHandle], retried: bool = False
    ) -> None:
        self.key = key
        self.run = run
        self.batch = batch
        self.handles = tuple(handles)
        self.retried = retried


class BatchCommitter:
    """The driver's side of one sink."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.transactions = SyncTransactions(shared_cluster(options.cluster))

    # Commit.

    def commit(self, attempt: BatchAttempt) -> bool:
        """Whether it was this attempt that counts; False: the batch was decided before."""
        committer = self._committer(attempt.key)
        return _retry_when_fenced(lambda: self._commit(committer, attempt))

    def _commit(self, committer: MarkerWriter, attempt: BatchAttempt) -> bool:
        is_idle = not attempt.handles and committer.swept_run == attempt.run
        if is_idle:
            return True  # nothing to decide on
        marker = committer.marker()
        check_order(self.options, attempt.key, marker, attempt.batch)
        if marker is not None and not marker.done:
            self.roll_forward(attempt.key, marker)
            marker = marker._replace(done=True)
            committer.append(marker)
        if marker is not None and marker.batch >= attempt.batch:
            logger.warning("query %s: batch %s was committed before", attempt.key, attempt.batch)
            self.abort_all(not_in_marker(attempt.handles, marker))
            return False
        # Before the decision: what is open now is of this batch or of one before, whoever runs the query.
        leftovers = self._leftovers(committer, attempt)
        if attempt.handles:
            marker = Marker(attempt.batch, attempt.handles)
            committer.append(marker)
            self.roll_forward(attempt.key, marker)
            committer.append(marker._replace(done=True))
        self._abort_leftovers(leftovers)
        return True

    def roll_forward(self, key: str, marker: Marker) -> None:
        """Commit what a marker names; what is committed already is let be. Raises LostBatchError."""
        results = self.transactions.end(marker.winners, commit=True)
        refused = [result for result in results.values() if isinstance(result, BrokerError)]
        if not refused:
            return
        text = (
            f"query {key}: batch {marker.batch} was decided, but {len(refused)} of its "
            f"{len(marker.winners)} transactions cannot be committed: {refused[0]}. Most likely they passed "
            "their time-out before they were committed, and their rows are lost. Two-phase commit on the "
            "brokers (transaction.two.phase.commit.enable=true) excludes that."
        )
        if self.options.accept_lost_batch == marker.batch:
            logger.error("%s Going on: the option acceptLostBatch says so.", text)
            return
        raise LostBatchError(
            f"{text} The query stops here. To go on without these rows, set the option acceptLostBatch to "
            f"{marker.batch}."
        )

    # Abort.

    def abort(self, attempt: BatchAttempt) -> None:
        """Abort what tasks prepared, unless it was decided: a commit that failed may have got so far."""
        committer = self._committer(attempt.key)
        # A marker that is still under way is refused from here on: what is not there now never will be.
        marker = _retry_when_fenced(lambda: committer.marker(fence=True))
        losers = not_in_marker(attempt.handles, marker)
        self.abort_all(losers)
        decided = marker is not None and len(losers) < len(attempt.handles)
        if not decided:
            prefix = transaction_prefix(attempt.key, attempt.run)
            self._abort_leftovers(self.transactions.open_ids(prefix, all_brokers=False))

    def abort_all(self, handles: Sequence[TransactionHandle]) -> None:
        """What is refused is over already, one way or the other."""
        if handles:
            self.transactions.end(handles, commit=False)

    # Leftovers.

    def _leftovers(self, committer: MarkerWriter, attempt: BatchAttempt) -> list[str]:
        now_s = time.monotonic()
        due = (
            attempt.retried
            or committer.swept_run != attempt.run
            or now_s - committer.swept_at_s > SWEEP_INTERVAL_S
        )
        if not due:
            return []
        try:
            found = self.transactions.open_ids(transaction_prefix(attempt.key), all_brokers=False)
        except ClientError as error:
            logger.warning("query %s: leftovers cannot be looked for now: %s", attempt.key, error)
            return []
        committer.swept_run, committer.swept_at_s = attempt.run, now_s
        own = dict.fromkeys(handle.transactional_id for handle in attempt.handles)
        return [name for name in found if name not in own]

    def _abort_leftovers(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                self.transactions.fence(name)
            except ClientError as error:
                # The next batch looks again; nothing of it will ever be committed.
                logger.warning("the transaction of %s cannot be aborted now: %s", name, error)

    def _committer(self, key: str) -> MarkerWriter:
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
    """Spark does at most the last batch again. Raises CheckpointBehindError for one before it."""
    if marker is not None and marker.batch > batch and not options.skips_earlier:
        raise CheckpointBehindError(
            f"query {key}: batch {batch} is to be written, but batch {marker.batch} was committed already: "
            "the checkpoint is older than the output. Start with a new checkpoint, or, if these batches are "
            f"to be written again, write null for the key {key} to the topic {options.commit_topic!r}."
        )


def end_job(options: SinkOptions, handles: Sequence[TransactionHandle], prefix: str, *, commit: bool) -> None:
    """The end of a batch job that nobody will do again under the same name: no marker, just the ends."""
    transactions = SyncTransactions(shared_cluster(options.cluster))
    leftovers = transactions.open_ids(prefix, all_brokers=False)
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
            f"{len(refused)} of {len(handles)} transactions of the job could not be committed, "
            f"the others were: {refused[0]}"
        )


def last_marker(options: SinkOptions, key: str) -> Marker | None:
    """The newest marker of a query, without taking over."""
    return CommitLog(shared_cluster(options.cluster), options.commit_topic).last(key)

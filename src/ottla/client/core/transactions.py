"""The transactions of one producer: its states, the partitions and groups of the open one, its end.

NEW -> READY -> OPEN -> COMMITTING -> READY         init, begin, commit
                OPEN -> FAILED -> ABORTING -> READY  a batch could not be delivered: only abort is left
                OPEN -> PREPARED -> ...              two-phase commit
any -> LOST                                          fenced: init takes the id back
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ottla.client.core.batches import ProducerId
from ottla.client.core.cluster import TopicPartition
from ottla.client.core.group_offsets import MemberIdentity, while_epoch_is_stale
from ottla.client.core.group_types import CommittedOffset
from ottla.client.core.steps import Result, Steps
from ottla.client.core.transaction_api import PreparedTransaction, TransactionApi, TransactionHandle
from ottla.client.errors import BrokerError, ClientError, ProducerFencedError, TransactionFailedError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.versions import PRODUCE_ADDS_PARTITIONS_SINCE

# States.
NEW = "not initialized"
READY = "ready"
OPEN = "open"
PREPARED = "prepared"
FAILED = "failed"
COMMITTING = "being committed"
ABORTING = "being aborted"
LOST = "lost"

# The producer cannot continue: another one has its id, or it may not write.
_FATAL_WRITE = (
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION,
)
_FATAL = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, *_FATAL_WRITE)


class Transactions:
    """The state machine of one transactional id in one producer."""

    def __init__(
        self, api: TransactionApi, transactional_id: str, timeout_ms: int, two_phase_commit: bool = False
    ) -> None:
        self.api = api
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.two_phase_commit = two_phase_commit
        self.state = NEW
        self.prepared: PreparedTransaction | None = None
        self._handle: TransactionHandle | None = None
        self._error: ClientError | None = None
        # A batch may or may not have been written: the next sequence number is unknown.
        self._needs_epoch = False
        self._added: dict[TopicPartition, None] = {}
        # Something was sent for it, and the coordinator has added it.
        self._has_begun = False
        self._is_known = False

    # Checks.

    def check_open(self) -> None:
        """Raises unless records may be added."""
        if self.state == FAILED:
            raise self.failure()
        if self.state == LOST:
            assert self._error is not None
            raise self._error
        if self.state != OPEN:
            raise ClientError(
                f"transactional id {self.transactional_id!r}: no transaction is open (it is {self.state}): "
                "begin one first"
            )

    def check_begun(self) -> None:
        """Raises unless a transaction was begun; it may have failed since."""
        if self.state in (NEW, READY, LOST):
            self.check_open()

    def check_abortable(self) -> None:
        """Raises unless there is a transaction that can be aborted."""
        if self.state == LOST:
            self.check_open()
        if self.state not in (OPEN, FAILED, PREPARED, ABORTING):
            what = "may be committed already" if self.state == COMMITTING else self.state
            raise ClientError(f"there is no transaction to abort: it is {what}")

    def failure(self) -> TransactionFailedError:
        assert self._error is not None
        error = TransactionFailedError(f"the transaction can only be aborted: {self._error}")
        error.__cause__ = self._error
        return error

    def fail(self, error: ClientError, *, sequence_is_lost: bool) -> None:
        """Fail the transaction: a batch was not delivered."""
        self._needs_epoch |= sequence_is_lost
        if isinstance(error, BrokerError) and error.code in _FATAL_WRITE:
            self._lose(error)
        elif self.state in (OPEN, PREPARED):
            self.state = FAILED
            self._error = error

    def _lose(self, error: ClientError) -> None:
        self.state = LOST
        self._error = error

    @property
    def has_open(self) -> bool:
        return self.state in (OPEN, FAILED)

    @property
    def takes_batches(self) -> bool:
        """Whether batches are still sent and retried."""
        return self.state == OPEN

    @property
    def handle(self) -> TransactionHandle:
        assert self._handle is not None, "init must be called first"
        return self._handle

    @property
    def producer(self) -> ProducerId:
        return self.handle.producer

    @property
    def produce_version_max(self) -> int | None:
        return None if self.handle.is_second_version else PRODUCE_ADDS_PARTITIONS_SINCE - 1

    # Beginning.

    def init(self, *, keep_prepared: bool = False) -> Steps[None]:
        """Take the id: older producers are fenced, what they left open is aborted, or kept if prepared."""
        if self.state not in (NEW, READY, LOST):
            raise ClientError(f"transactional id {self.transactional_id!r}: a transaction is {self.state}")
        if keep_prepared and not self.two_phase_commit:
            raise ClientError("keep_prepared: create the producer with two_phase_commit=True")
        ongoing = yield from self._init(keep_prepared=keep_prepared)
        self._closed()
        if ongoing is not None:
            self.prepared = ongoing
            self.state = PREPARED
            self._has_begun = self._is_known = True

    def _init(
        self, previous: ProducerId | None = None, *, keep_prepared: bool = False
    ) -> Steps[PreparedTransaction | None]:
        self._handle, ongoing = yield from self._fatal_if_fenced(
            self.api.init(
                self.transactional_id,
                self.timeout_ms,
                previous=previous,
                two_phase_commit=self.two_phase_commit,
                keep_prepared=keep_prepared,
            )
        )
        return ongoing

    def begin(self) -> Steps[None]:
        if self.state == NEW:
            yield from self.init()
        if self.state == LOST:
            self.check_open()
        if self.state != READY:
            raise ClientError(
                f"transactional id {self.transactional_id!r}: the previous transaction is {self.state}: "
                "commit or abort it first"
            )
        self.state = OPEN

    # Partitions and groups.

    def not_added(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, None]:
        """The partitions that must be announced before their first batch: none in version 2."""
        new = dict.fromkeys(key for key in partitions if key not in self._added)
        if new and self.handle.is_second_version:
            self._has_begun = True
            self._added.update(new)
            return {}
        return new

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        keys = list(partitions)
        self._has_begun = True
        yield from self._fatal_if_fenced(self.api.add_partitions(self.handle, keys))
        self._is_known = True
        self._added.update(dict.fromkeys(keys))

    def add_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset | int],
        identity: Callable[[], MemberIdentity],
    ) -> Steps[None]:
        """Commit offsets of a group when the transaction is committed. Raises TransactionFailedError."""
        self.check_open()
        if not offsets:
            return
        self._has_begun = True
        try:
            if not self.handle.is_second_version:
                yield from self._fatal_if_fenced(self.api.add_group(self.handle, group_id))
                self._is_known = True
            yield from while_epoch_is_stale(
                self.api.cluster, lambda: self.api.add_offsets(self.handle, group_id, offsets, identity)
            )
        except ClientError as error:
            if isinstance(error, ProducerFencedError):
                self._lose(error)
            else:
                self.fail(error, sequence_is_lost=False)
            self.check_open()

    # Ending.

    def prepare(self) -> PreparedTransaction:
        """Everything is delivered: the transaction waits for `end`."""
        self.check_open()
        self.prepared = PreparedTransaction(*self.producer)
        self.state = PREPARED
        return self.prepared

    def hand_over(self, *, waits: bool) -> Steps[TransactionHandle]:
        """Everything is delivered: leave the end to the process that has the returned handle."""
        self.check_open()
        if not self._has_begun:
            raise ClientError(f"transactional id {self.transactional_id!r}: nothing was written to prepare")
        handle = self.handle
        if waits:
            handle = yield from self._fatal_if_fenced(self.api.keep(handle))
        self._closed()
        self.state = NEW
        return handle

    def end(self, *, commit: bool) -> Steps[None]:
        """Everything is delivered or dropped. May be repeated if it fails with a retriable error."""
        self.state = COMMITTING if commit else ABORTING
        if self._has_begun:
            try:
                self._handle = yield from self._fatal_if_fenced(self.api.end(self.handle, commit=commit))
            except BrokerError as error:
                never_begun = error.code == ErrorCode.INVALID_TXN_STATE and not (commit or self._is_known)
                if not never_begun:
                    if not error.retriable:
                        self._lose(error)
                    raise
        if self._needs_epoch and not self.handle.is_second_version:
            yield from self._init(self.producer)
        self._closed()

    def _closed(self) -> None:
        self.state = READY
        self._error = None
        self.prepared = None
        self._needs_epoch = self._has_begun = self._is_known = False
        self._added.clear()

    def _fatal_if_fenced(self, steps: Steps[Result]) -> Steps[Result]:
        try:
            return (yield from steps)
        except BrokerError as error:
            if error.code in _FATAL:
                self._lose(error)
            raise

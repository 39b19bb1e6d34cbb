"""What a task does: skip what is decided, write the rest in a transaction, and leave that open."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from ottla.client import ArrowWriter, ClusterOptions, TransactionHandle, shared_cluster
from pyspark_ottla.exactly_once.deciding import Decider, check_order, look
from pyspark_ottla.exactly_once.marker import transaction_prefix
from pyspark_ottla.sink_options import SinkOptions
from pyspark_ottla.worker import settle

LOOKS_KEPT_MAX = 1000


class Who(NamedTuple):
    """Which attempt of which task of which batch; `key` is the query's id, `run` one start of it."""

    key: str
    run: str
    batch: int
    partition: int = 0
    attempt: int = 0


class Prepared(WriterCommitMessage):
    """What a task tells the driver: the driver itself does not know which query it commits."""

    def __init__(self, who: Who, handle: TransactionHandle | None, records: int, dead_letters: int) -> None:
        self.who = who
        self.handle = handle
        self.records = records
        self.dead_letters = dead_letters


def write_prepared(
    options: SinkOptions, who: Who, batches: Iterable[pa.RecordBatch], *, decided: bool = True
) -> Prepared:
    """Write the rows of a task and prepare them; with `decided` a marker will decide on them."""
    settle()
    if decided and _is_committed(options, who):
        for _ in batches:
            pass  # Spark wants its rows to be taken
        return Prepared(who, None, 0, 0)
    handle = None
    with ArrowWriter(
        shared_cluster(options.cluster),
        options.topic,
        transactional_id=next_transactional_id(who),
        transaction_timeout_ms=options.transaction_timeout_ms,
        dead_letter_topic=options.dead_letter_topic,
        **options.writer._asdict(),
    ) as writer:
        has_begun = False
        for rows in batches:
            if not has_begun and rows.num_rows:
                writer.begin()
                has_begun = True
            writer.write(options.records(rows))
        if has_begun:
            # A job that is not decided by a marker has nobody who would end it after a crash.
            handle = writer.prepare(waits=decided)
    return Prepared(who, handle, writer.written.records, writer.dead_letters)


_looks: dict[tuple[ClusterOptions, str, str, str], int] = {}


def _is_committed(options: SinkOptions, who: Who) -> bool:
    """Look once in a run: what is decided later in it is decided on what we write."""
    place = (options.cluster, options.commit_topic, who.key, who.run)
    last = _looks.get(place)
    if last is None:
        marker = look(options, who.key)
        last = -1 if marker is None else marker.batch
        check_order(options, who.key, marker, who.batch)
        if marker is not None and not marker.done and who.partition == 0:
            # The driver has died after it decided. Its transactions may have a time-out, so do not wait for
            # our driver's turn.
            Decider(options).roll_forward(who.key, marker)
        if len(_looks) >= LOOKS_KEPT_MAX:
            _looks.clear()
        _looks[place] = last
    return last >= who.batch


# Transactional ids.

_lock = threading.Lock()
_worker = ""
_worker_pid = -1
# For each query: its run and batch of now, the first batch that this worker saw of the run, ids in use.
_slots: dict[str, tuple[str, int, int, int]] = {}


def next_transactional_id(who: Who) -> str:
    """One that no other attempt of the batch has; see the package for why it may be used again."""
    global _worker, _worker_pid
    with _lock:
        if _worker_pid != os.getpid():
            _worker, _worker_pid = uuid.uuid4().hex[:12], os.getpid()
            _slots.clear()
        run, batch, first, used = _slots.get(who.key, ("", -1, -1, 0))
        if run != who.run:
            run, batch, first, used = who.run, who.batch, who.batch, 0
        elif batch != who.batch:
            batch, used = who.batch, 0
        _slots[who.key] = (run, batch, first, used + 1)
        when = "first" if batch == first else "later"
        return f"{transaction_prefix(who.key, who.run)}{_worker}/{when}-{used}"

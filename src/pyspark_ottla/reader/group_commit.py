"""Commits the offsets of finished batches to a consumer group, so that lag tools show the query.

The commits are informational: a query resumes from its checkpoint, never from the group. A commit that fails
is therefore logged and otherwise ignored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from ottla.client import ClusterOptions, CommittedOffset, shared_cluster
from ottla.client.blocking.groups import SyncGroup
from ottla.client.errors import ClientError
from pyspark_ottla.client_options import group_id_of
from pyspark_ottla.offsets import Offsets
from pyspark_ottla.option_values import flag

log = logging.getLogger("pyspark_ottla")

OPTION = "commitOffsetsToGroup"
METADATA_OPTION = "commitOffsetsMetadata"
# A batch must not wait long, nor repeatedly, for a coordinator that is unavailable.
COMMIT_TIMEOUT_MS = 2_000
PAUSE_AFTER_FAILURE_S = 10.0
# Offsets without a commit expire (offsets.retention.minutes), also in partitions without new records.
REFRESH_S = 600.0


def commit_group_id(options: Mapping[str, str], *, streaming: bool) -> str:
    """Return the group to commit to; empty if the option is off. Raises ValueError."""
    group_id = group_id_of(options)
    if not flag(options, OPTION, default=False):
        return ""
    if not streaming:
        raise ValueError(f"option {OPTION!r}: a batch query commits no offsets")
    if not group_id:
        raise ValueError(f"option {OPTION!r} is true: set 'kafka.group.id' to name the group")
    return group_id


class GroupCommitter:
    """Commits for one query. It is pickled with the reader, so it connects on first use."""

    def __init__(self, cluster: ClusterOptions, group_id: str, metadata: str = "") -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._metadata = metadata
        self._group: SyncGroup | None = None
        self._committed: Offsets = {}
        self._not_before_s = float("-inf")
        self._refreshed_at_s = float("-inf")

    def commit(self, finished: Offsets) -> None:
        """Commit the end offsets of a finished batch. Never raises a ClientError."""
        now_s = time.monotonic()
        is_refresh = now_s - self._refreshed_at_s > REFRESH_S
        changed = {
            key: offset
            for key, offset in finished.items()
            if is_refresh or self._committed.get(key) != offset
        }
        if not self._group_id or not changed or now_s < self._not_before_s:
            return
        if self._group is None:
            self._group = SyncGroup(shared_cluster(self._cluster), self._group_id)
        rows = {key: CommittedOffset(offset, -1, self._metadata) for key, offset in changed.items()}
        try:
            self._group.commit(rows, timeout_ms=COMMIT_TIMEOUT_MS)
        except ClientError as error:
            self._not_before_s = time.monotonic() + PAUSE_AFTER_FAILURE_S
            log.warning(
                "cannot commit the offsets of finished batches to group %r: %s. The query continues, but "
                "its lag is not updated; next attempt in %g s",
                self._group_id,
                error,
                PAUSE_AFTER_FAILURE_S,
            )
            return
        self._committed |= changed
        if is_refresh:
            self._refreshed_at_s = now_s

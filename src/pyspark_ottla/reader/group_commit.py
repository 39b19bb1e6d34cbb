"""Tells a consumer group how far a query has read, so that every tool that shows lag shows the query too.

Nothing is ever read back from there: where a query goes on is in its checkpoint. So a commit that fails is
worth a warning and no more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from ottla.client import ClusterOptions, CommittedOffset, shared_cluster
from ottla.client.blocking.groups import SyncGroup
from ottla.client.errors import ClientError
from pyspark_ottla.client_options import true_or_false
from pyspark_ottla.reader.offset_specs import group_id_of
from pyspark_ottla.reader.ranges import Offsets

log = logging.getLogger("pyspark_ottla")

OPTION = "commitOffsetsToGroup"
METADATA_OPTION = "commitOffsetsMetadata"
# A batch must not wait for long, and not again and again, for a coordinator that is not there.
COMMIT_TIMEOUT_MS = 2_000
PAUSE_AFTER_FAILURE_S = 10.0


def commit_group_id(options: Mapping[str, str], *, streaming: bool) -> str:
    """The group to commit to; empty where none is asked for. Raises ValueError."""
    group_id = group_id_of(options)
    if not true_or_false(OPTION, options.get(OPTION.lower(), "false")):
        return ""
    if not streaming:
        raise ValueError(f"option {OPTION!r}: a batch query has no finished batches to commit")
    if not group_id:
        raise ValueError(f"option {OPTION!r} is true: set 'kafka.group.id' to say to which group")
    return group_id


class GroupCommitter:
    """For one query. It goes to executors with its reader, so it holds values until it is used."""

    def __init__(self, cluster: ClusterOptions, group_id: str, metadata: str = "") -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._metadata = metadata
        self._group: SyncGroup | None = None
        self._told: Offsets = {}
        self._not_before_s = float("-inf")

    def commit(self, finished: Offsets) -> None:
        """All offsets before these were handled. Never raises what the cluster says."""
        news = {key: offset for key, offset in finished.items() if self._told.get(key) != offset}
        if not self._group_id or not news or time.monotonic() < self._not_before_s:
            return
        if self._group is None:
            self._group = SyncGroup(shared_cluster(self._cluster), self._group_id)
        rows = {key: CommittedOffset(offset, -1, self._metadata) for key, offset in news.items()}
        try:
            self._group.commit(rows, timeout_ms=COMMIT_TIMEOUT_MS)
        except ClientError as error:
            self._not_before_s = time.monotonic() + PAUSE_AFTER_FAILURE_S
            log.warning(
                "the offsets of finished batches could not be committed to group %r: %s. The query goes on, "
                "tools that show lag will not see it; next attempt in %g s",
                self._group_id,
                error,
                PAUSE_AFTER_FAILURE_S,
            )
            return
        self._told |= news

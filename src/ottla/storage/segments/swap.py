"""Replacing segments by a cleaned one, crash safe.

The files of the cleaned segment are on disk with the suffix `.cleaned`. They are renamed to `.swap`, the log
last; then the old segments are renamed to `.deleted`; then the `.swap` files get their final names, the log
first. A crash leaves one of these states, which interrupted_changes.py resolves:

    some files are `.cleaned`                         the old segments are complete: the new files are removed
    all files are `.swap`                             the old segments are removed, the renames completed
    the log has its final name, an index is `.swap`   the index gets its final name

The directory is synced later: until then a power loss may bring the old segments back, complete.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ottla.storage.files import Files
from ottla.storage.segments.interrupted_changes import CLEANED_SUFFIX, SWAP_SUFFIX
from ottla.storage.segments.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
)


class RunningClean(Protocol):
    """A cleaning of the log that is running in another thread."""

    aborted: bool

    def abort(self) -> None: ...


class CleanedGroup(NamedTuple):
    """A cleaned segment on disk, and the segments it replaces."""

    base_offset: int
    old: list[Segment]


def swap_in(
    files: Files, directory: str, group: CleanedGroup, now_ms: int, mark: str
) -> tuple[Segment, list[str]]:
    """Return the new segment, and the renamed files of the old ones, which the caller removes later.

    `mark` becomes part of the old files' names: a fetch may still be sending an earlier segment that had the
    same name.
    """
    prefix = f"{directory}/{group.base_offset:020d}"
    suffixes = [INDEX_SUFFIX, TIME_INDEX_SUFFIX]
    if files.exists(prefix + TXN_INDEX_SUFFIX + CLEANED_SUFFIX):
        suffixes.append(TXN_INDEX_SUFFIX)
    for suffix in (*suffixes, LOG_SUFFIX):
        files.rename(prefix + suffix + CLEANED_SUFFIX, prefix + suffix + SWAP_SUFFIX)
    replaced: list[str] = []
    for segment in group.old:
        replaced += segment.rename_deleted(mark)
    for suffix in (LOG_SUFFIX, *suffixes):
        files.rename(prefix + suffix + SWAP_SUFFIX, prefix + suffix)
    segment = Segment.load(files, directory, group.base_offset, now_ms)
    segment.mark_checked()  # written by this process, from batches whose checksums were verified
    return segment, replaced

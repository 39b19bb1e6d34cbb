"""Completing or undoing changes to a partition's files that were interrupted by a crash.

`.deleted` files are removed. `.cleaned` files are the unfinished output of a cleaning; they are removed with
the `.swap` files of the same cleaning, because the original segments still exist. Other `.swap` files are
complete and replace the segments that they cover.
"""

from __future__ import annotations

from ottla.storage.files import Files
from ottla.storage.logger import logger
from ottla.storage.segments.segment import DELETED_SUFFIX, LOG_SUFFIX, SUFFIXES, Segment

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"


def finish_interrupted_changes(files: Files, directory: str, names: list[str]) -> list[str]:
    """Return the remaining file names."""
    transitional = [name for name in names if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX))]
    if not transitional:
        return names
    cleaned_from = min((_base(name) for name in transitional if name.endswith(CLEANED_SUFFIX)), default=None)
    swaps = []
    for name in transitional:
        is_swap = name.endswith(SWAP_SUFFIX)
        if is_swap and (cleaned_from is None or _base(name) < cleaned_from):
            swaps.append(name)
        else:
            logger.info("removing %s/%s, left by an earlier process", directory, name)
            files.remove(f"{directory}/{name}")
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _drop_covered(files, directory, name)
    for name in sorted(swaps):
        files.rename(f"{directory}/{name}", f"{directory}/{name[: -len(SWAP_SUFFIX)]}")
    files.sync_dir(directory)
    return files.listdir(directory)


def _base(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else -1


def _drop_covered(files: Files, directory: str, swap_name: str) -> None:
    """Remove the segments whose offsets the swapped-in segment covers."""
    base = _base(swap_name)
    log = files.open(f"{directory}/{swap_name}")
    swapped_in = Segment(files, directory, base, log, size=log.size, now_ms=0)
    swapped_in.reset_indexes(in_memory=True)
    end = swapped_in.next_offset()
    log.close()
    for name in files.listdir(directory):
        covered = name.endswith(SUFFIXES) and (base <= _base(name) < end or _base(name) == base)
        if covered:
            logger.info("removing %s/%s, replaced by %s", directory, name, swap_name)
            files.remove(f"{directory}/{name}")

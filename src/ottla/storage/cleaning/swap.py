"""A cleaned segment in the place of those that it was made of.

Its files are on the disk as `.cleaned`. They become `.swap`, the log last; then the old segments become
`.deleted`; then the new files get their names, the log first. Whoever is interrupted leaves one of these:

    some are `.cleaned`                       the old segments are all there: leftovers.py drops the new ones
    all are `.swap`                           leftovers.py drops the old segments and goes on
    the log has its name, an index is `.swap` leftovers.py gives the index its name

The names are synced later, in one go: until then a power cut may bring the old segments back, complete.
"""

from __future__ import annotations

from ottla.storage.files import Files
from ottla.storage.leftovers import CLEANED_SUFFIX, SWAP_SUFFIX
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment


def swap_in(
    files: Files, directory: str, base_offset: int, old: list[Segment], now_ms: int, mark: str
) -> tuple[Segment, list[str]]:
    """Returns the new segment, and the files of the old ones, which are to be removed later.

    `mark` goes into the names of the old files: an earlier segment of the same name may still be on its way
    to a reader.
    """
    prefix = f"{directory}/{base_offset:020d}"
    suffixes = [INDEX_SUFFIX, TIME_INDEX_SUFFIX]
    if files.exists(prefix + TXN_INDEX_SUFFIX + CLEANED_SUFFIX):
        suffixes.append(TXN_INDEX_SUFFIX)
    for suffix in (*suffixes, LOG_SUFFIX):
        files.rename(prefix + suffix + CLEANED_SUFFIX, prefix + suffix + SWAP_SUFFIX)
    replaced: list[str] = []
    for segment in old:
        replaced += segment.rename_deleted(mark)
    for suffix in (LOG_SUFFIX, *suffixes):
        files.rename(prefix + suffix + SWAP_SUFFIX, prefix + suffix)
    segment = Segment.load(files, directory, base_offset, now_ms)
    segment.mark_checked()  # this process has written it, from batches whose checksums held
    return segment, replaced

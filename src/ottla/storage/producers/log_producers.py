"""The producer state of one log, loaded from its newest snapshot on first use."""

from __future__ import annotations

from ottla.storage.producers.snapshots import ProducerSnapshots, replay
from ottla.storage.producers.state import ProducerState
from ottla.storage.segments.segment_list import SegmentList


class LogProducers:
    """Owns the producer state and its snapshot files. `state` is None until something needs it."""

    __slots__ = ("_segments", "snapshots", "state")

    def __init__(
        self, segments: SegmentList, snapshots: ProducerSnapshots, state: ProducerState | None
    ) -> None:
        self._segments = segments
        self.snapshots = snapshots
        self.state = state

    def load(self, log_start_offset: int, log_end_offset: int) -> ProducerState:
        """Load the newest snapshot and apply the batches after it. Transaction indexes may be rewritten."""
        state = ProducerState()
        self.snapshots.load_latest(state, log_start_offset)
        replay(state, self._segments, log_start_offset, log_end_offset)
        self.state = state
        return state

    def write_snapshot(self, state: ProducerState) -> None:
        self.snapshots.write(state, self._segments)

    def truncated(self, log_end_offset: int) -> None:
        """Drop what describes batches above the new end: the state, too, if one was a producer's."""
        self.snapshots.remove_above(log_end_offset)
        state = self.state
        if state is not None and state.last_change_offset < log_end_offset:
            state.map_end_offset = log_end_offset
        else:
            self.state = None

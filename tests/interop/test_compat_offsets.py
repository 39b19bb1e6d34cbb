"""Responses that equal those of a Kafka 4.3 broker on the same data directory."""

from __future__ import annotations

from tests.support.interop.wire import batch_of

EARLIEST_PENDING_UPLOAD = -6


def test_earliest_pending_upload_without_tiered_storage(wire, topic):
    wire.produce(topic, batch_of(b"a", b"b"))
    found = wire.list_offsets(topic, EARLIEST_PENDING_UPLOAD, version=11)
    assert (found.error_code, found.offset, found.timestamp, found.leader_epoch) == (0, -1, -1, -1)

"""Brokers that were fenced a moment ago stay listed for a while, if nobody would wait for them in vain."""

from __future__ import annotations

from typing import Any

from ottla.broker.metadata.recent_brokers import SHOWN_MS, RecentBrokers
from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.image_parts import ImageDelta
from ottla.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.protocol.messages.register_broker_record import RegisterBrokerRecord
from ottla.protocol.messages.unregister_broker_record import UnregisterBrokerRecord


class Witness:
    def __init__(self, *gone: int) -> None:
        self.metadata = MetadataCache()
        self.now_ms = 1000
        self.recent = RecentBrokers(self.metadata, lambda: self.now_ms, lambda node_id: node_id in gone)
        self.sees(RegisterBrokerRecord(broker_id=1, broker_epoch=5, fenced=True))

    def sees(self, record: Any) -> bool:
        delta = ImageDelta()
        self.metadata.image.apply(record, delta)
        self.recent.image_changed(delta)
        return self.recent.is_recent(1)

    def change(self, **changes: int) -> bool:
        return self.sees(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, **changes))


def test_a_dead_broker_is_recent_from_its_fencing_until_it_is_back_or_forgotten() -> None:
    witness = Witness(1)
    assert not witness.recent.is_recent(1), "it has never been there"
    assert not witness.change(fenced=-1), "it is there"
    assert witness.change(fenced=1)
    witness.now_ms += SHOWN_MS
    assert not witness.recent.is_recent(1)
    witness.change(fenced=-1)
    assert not witness.sees(UnregisterBrokerRecord(broker_id=1, broker_epoch=5)), "it has no address any more"


def test_one_that_is_only_silent_is_not_shown() -> None:
    witness = Witness()
    witness.change(fenced=-1)
    assert not witness.change(fenced=1)


def test_one_that_stops_in_order_is_shown() -> None:
    witness = Witness()
    witness.change(fenced=-1)
    witness.change(in_controlled_shutdown=1)
    assert witness.change(fenced=1)

"""Recently fenced brokers stay listed for a while, unless clients would wait for them."""

from __future__ import annotations

from typing import Any

from ottla.broker.metadata.recent_brokers import SHOWN_MS, RecentBrokers
from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.image.parts import ImageDelta
from ottla.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.protocol.messages.register_broker_record import RegisterBrokerRecord
from ottla.protocol.messages.unregister_broker_record import UnregisterBrokerRecord


class Observed:
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


def test_a_dead_broker_is_recent_until_it_is_back_or_expires() -> None:
    observed = Observed(1)
    assert not observed.recent.is_recent(1), "it was never alive"
    assert not observed.change(fenced=-1), "it is alive"
    assert observed.change(fenced=1)
    observed.now_ms += SHOWN_MS
    assert not observed.recent.is_recent(1)
    observed.change(fenced=-1)
    assert not observed.sees(UnregisterBrokerRecord(broker_id=1, broker_epoch=5)), "it has no address"


def test_a_silent_broker_is_not_recent() -> None:
    observed = Observed()
    observed.change(fenced=-1)
    assert not observed.change(fenced=1)


def test_a_broker_that_shuts_down_cleanly_is_recent() -> None:
    observed = Observed()
    observed.change(fenced=-1)
    observed.change(in_controlled_shutdown=1)
    assert observed.change(fenced=1)

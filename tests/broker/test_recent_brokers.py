"""Brokers that were fenced a moment ago stay listed for a while."""

from __future__ import annotations

from ottla.broker.recent_brokers import SHOWN_MS, RecentBrokers
from ottla.controller.image import ClusterImage
from ottla.controller.image_parts import ImageDelta
from ottla.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.protocol.messages.register_broker_record import RegisterBrokerRecord
from ottla.protocol.messages.unregister_broker_record import UnregisterBrokerRecord

NOW_MS = 1000


def test_a_broker_is_recent_from_its_fencing_until_it_is_back_or_forgotten() -> None:
    image = ClusterImage()
    clock = [NOW_MS]
    recent = RecentBrokers(lambda: image, lambda: clock[0])

    def happen(record: object) -> None:
        delta = ImageDelta()
        image.apply(record, delta)  # type: ignore[arg-type]
        recent.image_changed(delta)

    happen(RegisterBrokerRecord(broker_id=1, broker_epoch=5, fenced=True))
    assert not recent.is_recent(1), "it has never been there"
    happen(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1))
    assert not recent.is_recent(1), "it is there"
    happen(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=1))
    assert recent.is_recent(1)
    clock[0] += SHOWN_MS
    assert not recent.is_recent(1)
    happen(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1))
    happen(UnregisterBrokerRecord(broker_id=1, broker_epoch=5))
    assert recent.is_recent(1), "an unregistered one has no address and is not shown anyway"

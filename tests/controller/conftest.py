"""A controller with brokers, for the tests of its decisions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from ottla.config.load import broker_config
from ottla.controller.controller import Controller
from ottla.controller.features import SUPPORTED_FEATURES, bootstrap_records
from ottla.controller.image import ClusterImage
from ottla.controller.image_parts import ImageDelta
from ottla.protocol.message import Message
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.metadata_frame import decode_metadata_record, encode_metadata_record

CLUSTER = "test-cluster"


class Harness:
    """A controller, and a log of all its records as the metadata log would hold them."""

    def __init__(self, config: dict[str, str] | None = None, seed: int = 1) -> None:
        rng = random.Random(seed)
        self.image = ClusterImage()
        self.log: list[Message] = []
        self.controller = Controller(
            self.image,
            broker_config(config or {}),
            cluster_id=CLUSTER,
            draw=rng.randrange,
            new_uuid=lambda: rng.randbytes(16),
        )
        self.now_ms = 1_000_000
        self.append(bootstrap_records())

    def append(self, records: Iterable[Message]) -> ImageDelta:
        """Takes records over through their bytes, so that what is applied is what a log would give back."""
        stored = []
        for record in records:
            framed = encode_metadata_record(record, record.MAX_STABLE_VERSION)
            stored.append(decode_metadata_record(framed))
        self.log += stored
        return self.controller.apply(stored)

    def register(self, broker_id: int, rack: str | None = None, incarnation: int = 1, dirs: int = 1) -> int:
        """Registers and unfences a broker; gives its epoch, or the error code if that fails."""
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER,
            incarnation_id=(broker_id * 1000 + incarnation).to_bytes(16),
            listeners=[Listener(name="PLAINTEXT", host="h", port=9092)],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            rack=rack,
            log_dirs=[(1_000_000 + broker_id * 100 + i).to_bytes(16) for i in range(dirs)],
        )
        decision = self.controller.decide_register_broker(request, self.now_ms, len(self.log))
        self.append(decision.records)
        return -decision.reply.error_code if decision.reply.error_code else decision.reply.broker_epoch

    def heartbeat(self, broker_id: int, epoch: int, **fields: object) -> object:
        request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch)
        request.current_metadata_offset = len(self.log)
        for name, value in fields.items():
            setattr(request, name, value)
        decision = self.controller.decide_broker_heartbeat(request, self.now_ms)
        self.append(decision.records)
        return decision.reply

    def start_broker(
        self, broker_id: int, rack: str | None = None, incarnation: int = 1, dirs: int = 1
    ) -> int:
        epoch = self.register(broker_id, rack, incarnation, dirs)
        self.heartbeat(broker_id, epoch)
        assert self.image.brokers[broker_id].active
        return epoch


@pytest.fixture
def new_harness() -> Callable[..., Harness]:
    return Harness


@pytest.fixture
def cluster() -> Harness:
    """Three brokers."""
    harness = Harness()
    for broker_id in (1, 2, 3):
        harness.start_broker(broker_id)
    return harness

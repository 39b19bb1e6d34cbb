"""BrokerRegistrationChangeRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET


class BrokerRegistrationChangeRecord(Message):
    API_KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "broker_id", "broker_epoch", "fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs",
    )
    SCHEMA = """
        broker_id int32 0+
        broker_epoch int64 0+
        fenced int8 0+ tag:0:0+
        in_controlled_shutdown int8 1+ tag:1:1+
        log_dirs []uuid 2+ tag:2:2+
        cordoned_log_dirs []uuid 3+ null:3+ tag:3:3+ default:null
    """

    def __init__(self, *,
        broker_id: int = 0, broker_epoch: int = 0, fenced: int = 0, in_controlled_shutdown: int = 0,
        log_dirs: list[bytes] = UNSET, cordoned_log_dirs: list[bytes] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs: list[bytes] = [] if log_dirs is UNSET else log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs

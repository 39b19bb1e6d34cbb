"""BrokerHeartbeatRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET


class BrokerHeartbeatRequest(Message):
    API_KEY = 63
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "broker_id", "broker_epoch", "current_metadata_offset", "want_fence", "want_shut_down",
        "offline_log_dirs", "cordoned_log_dirs",
    )
    SCHEMA = """
        broker_id int32 0+
        broker_epoch int64 0+ default:-1
        current_metadata_offset int64 0+
        want_fence bool 0+
        want_shut_down bool 0+
        offline_log_dirs []uuid 1+ tag:0:1+
        cordoned_log_dirs []uuid 2+ null:2+ tag:1:2+ default:null
    """

    def __init__(self, *,
        broker_id: int = 0, broker_epoch: int = -1, current_metadata_offset: int = 0,
        want_fence: bool = False, want_shut_down: bool = False, offline_log_dirs: list[bytes] = UNSET,
        cordoned_log_dirs: list[bytes] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.current_metadata_offset = current_metadata_offset
        self.want_fence = want_fence
        self.want_shut_down = want_shut_down
        self.offline_log_dirs: list[bytes] = [] if offline_log_dirs is UNSET else offline_log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs

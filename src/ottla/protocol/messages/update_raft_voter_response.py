"""UpdateRaftVoterResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class UpdateRaftVoterResponse(Message):
    API_KEY = 82
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "current_leader")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        current_leader CurrentLeader 0+ tag:0:0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, current_leader: CurrentLeader = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.current_leader: CurrentLeader = CurrentLeader() if current_leader is UNSET else current_leader


class CurrentLeader(Struct):
    __slots__ = ("leader_id", "leader_epoch", "host", "port")
    SCHEMA = """
        leader_id int32 0+ default:-1
        leader_epoch int32 0+ default:-1
        host string 0+
        port int32 0+
    """

    def __init__(self, *, leader_id: int = -1, leader_epoch: int = -1, host: str = "", port: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.host = host
        self.port = port

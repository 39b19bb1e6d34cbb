"""The file `quorum-state`: the leader of the epoch, and the vote of this node.

Version 0 belongs to a fixed set of voters (kraft.version 0), version 1 to one that can change.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text
from ottla.quorum.errors import QuorumError
from ottla.storage.files import Files

FILE_NAME = "quorum-state"
UNKNOWN_LEADER = -1
NOT_VOTED = -1


class QuorumState:
    """What the file holds."""

    __slots__ = ("leader_epoch", "leader_id", "version", "voted_directory_id", "voted_id", "voters")

    def __init__(
        self,
        *,
        leader_id: int = UNKNOWN_LEADER,
        leader_epoch: int = 0,
        voted_id: int = NOT_VOTED,
        voted_directory_id: bytes = ZERO_UUID,
        voters: Sequence[int] = (),
        version: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.voted_id = voted_id
        self.voted_directory_id = voted_directory_id
        self.voters = tuple(voters)
        self.version = version

    def render(self) -> bytes:
        import json

        if self.version == 0:
            fields = {
                "clusterId": "",
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": self.voted_id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in self.voters],
                "data_version": 0,
            }
        else:
            fields = {
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": self.voted_id,
                "votedDirectoryId": uuid_to_text(self.voted_directory_id),
                "data_version": 1,
            }
        return json.dumps(fields, separators=(",", ":")).encode()


def read_quorum_state(files: Files, directory: str) -> QuorumState | None:
    """Return None if there is no file. An unreadable file is an error: the node could vote twice."""
    path = f"{directory}/{FILE_NAME}"
    data = files.read_bytes(path)
    if data is None:
        return None
    import json

    try:
        fields = json.loads(data)
        version = int(fields["data_version"])
        if version not in (0, 1):
            raise ValueError(f"data_version {version} is unknown")
        return QuorumState(
            leader_id=int(fields.get("leaderId", UNKNOWN_LEADER)),
            leader_epoch=int(fields["leaderEpoch"]),
            voted_id=int(fields.get("votedId", NOT_VOTED)),
            voted_directory_id=uuid_from_text(fields["votedDirectoryId"]) if version else ZERO_UUID,
            voters=[int(voter["voterId"]) for voter in fields.get("currentVoters") or ()],
            version=version,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise QuorumError(f"{path} cannot be read ({type(error).__name__})") from None


def write_quorum_state(files: Files, directory: str, state: QuorumState, *, durable: bool = True) -> None:
    files.write_atomic(f"{directory}/{FILE_NAME}", state.render(), durable=durable)

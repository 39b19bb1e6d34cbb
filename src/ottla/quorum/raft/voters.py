"""The set of voters, and its history along the log.

With kraft.version 0 the set is fixed by configuration and voters are identified by their ids alone. With 1 it
is in the log as VotersRecord, a voter is (node id, directory id), and a new set takes effect when it is
written, committed or not: truncating the log reverts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.protocol.messages.voters_record import Endpoint as RecordEndpoint
from ottla.protocol.messages.voters_record import KRaftVersionFeature, VotersRecord
from ottla.protocol.messages.voters_record import Voter as RecordVoter
from ottla.protocol.uuids import ZERO_UUID

BEFORE_THE_LOG = -1


class Endpoint(NamedTuple):
    """Where a listener is reached."""

    name: str
    host: str
    port: int


class Voter(NamedTuple):
    """One voter: ids, endpoints, and the supported range of kraft.version."""

    node_id: int
    directory_id: bytes = ZERO_UUID
    endpoints: tuple[Endpoint, ...] = ()
    kraft_version_min: int = 0
    kraft_version_max: int = 1


class VoterSet:
    """An immutable set of voters."""

    __slots__ = ("by_id",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self.by_id: dict[int, Voter] = {voter.node_id: voter for voter in voters}

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.by_id.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self.by_id == other.by_id

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.by_id)))

    def __repr__(self) -> str:
        return f"VoterSet({sorted(self.by_id)})"

    @property
    def majority(self) -> int:
        return len(self.by_id) // 2 + 1

    def has(self, node_id: int, directory_id: bytes) -> bool:
        """Whether this replica is a voter. A set without directory ids compares the node id alone."""
        voter = self.by_id.get(node_id)
        return voter is not None and voter.directory_id in (ZERO_UUID, directory_id)

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        voter = self.by_id.get(node_id)
        return voter.endpoints[0] if voter is not None and voter.endpoints else None

    def with_voter(self, voter: Voter) -> VoterSet:
        return VoterSet([*(each for each in self if each.node_id != voter.node_id), voter])

    def without(self, node_id: int) -> VoterSet:
        return VoterSet(voter for voter in self if voter.node_id != node_id)

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            voters=[
                RecordVoter(
                    voter_id=voter.node_id,
                    voter_directory_id=voter.directory_id,
                    endpoints=[
                        RecordEndpoint(name=e.name, host=e.host, port=e.port) for e in voter.endpoints
                    ],
                    kraft_version_feature=KRaftVersionFeature(
                        min_supported_version=voter.kraft_version_min,
                        max_supported_version=voter.kraft_version_max,
                    ),
                )
                for voter in sorted(self)
            ]
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> VoterSet:
        return cls(
            Voter(
                voter.voter_id,
                voter.voter_directory_id,
                tuple(Endpoint(each.name, each.host, each.port) for each in voter.endpoints),
                voter.kraft_version_feature.min_supported_version,
                voter.kraft_version_feature.max_supported_version,
            )
            for voter in record.voters
        )


NO_VOTERS = VoterSet()


class VoterHistory:
    """The sets of voters and the values of kraft.version by the offset of their record."""

    __slots__ = ("_sets", "_static", "_versions")

    def __init__(self, static: VoterSet = NO_VOTERS) -> None:
        self._static = static
        self._sets: list[tuple[int, VoterSet]] = []
        self._versions: list[tuple[int, int]] = []

    @property
    def voters(self) -> VoterSet:
        return self._sets[-1][1] if self._sets else self._static

    @property
    def voters_before(self) -> VoterSet:
        """The previous set."""
        return self._sets[-2][1] if len(self._sets) > 1 else self._static

    @property
    def voters_offset(self) -> int:
        """The offset of the record with the current voters, BEFORE_THE_LOG if there is none."""
        return self._sets[-1][0] if self._sets else BEFORE_THE_LOG

    @property
    def kraft_version(self) -> int:
        return self._versions[-1][1] if self._versions else 0

    def add(self, offset: int, change: VoterSet | int) -> None:
        """Add the set or kraft.version at `offset` (BEFORE_THE_LOG: in the snapshot made by formatting)."""
        if isinstance(change, VoterSet):
            assert not self._sets or self._sets[-1][0] <= offset, (offset, self._sets)
            self._sets.append((offset, change))
        else:
            assert not self._versions or self._versions[-1][0] <= offset, (offset, self._versions)
            self._versions.append((offset, change))

    def at(self, end_offset: int) -> tuple[int, VoterSet | None]:
        """Return kraft.version and voters for a snapshot of everything below `end_offset`."""
        versions = [version for offset, version in self._versions if offset < end_offset]
        sets = [voters for offset, voters in self._sets if offset < end_offset]
        return (versions[-1] if versions else 0, sets[-1] if sets else None)

    def truncate(self, end_offset: int) -> None:
        """Drop entries at and above `end_offset`."""
        _drop_tail(self._sets, end_offset)
        _drop_tail(self._versions, end_offset)

    def forget_before(self, start_offset: int) -> None:
        """Drop entries below `start_offset`, except the last two."""
        for entries in (self._sets, self._versions):
            while len(entries) > 2 and entries[2][0] < start_offset:
                entries.pop(0)

    def restart(self, end_offset: int, kraft_version: int, voters: VoterSet | None) -> None:
        """Start over with the values at the end of a snapshot that replaced the log."""
        self._sets = [] if voters is None else [(end_offset - 1, voters)]
        self._versions = [(end_offset - 1, kraft_version)] if kraft_version else []


def _drop_tail(entries: list[tuple[int, VoterSet]] | list[tuple[int, int]], end_offset: int) -> None:
    while entries and entries[-1][0] >= end_offset:
        entries.pop()


def endpoint_for(endpoints: Sequence[Endpoint], name: str | None = None) -> Endpoint | None:
    """Return the endpoint of the listener `name`, or the first endpoint."""
    for endpoint in endpoints:
        if name is None or endpoint.name == name:
            return endpoint
    return None

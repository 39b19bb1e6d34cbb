"""What members of a group believe to own, and what they have committed: checked as it happens."""

from __future__ import annotations

from ottla.testing.simulation.world import World


class GroupLedger:
    """One group. Two members that believe to own a partition, and offsets that go back, are surprises."""

    def __init__(self, world: World, group: str) -> None:
        self.group = group
        self._world = world
        self._owners: dict[int, str] = {}
        self._acknowledged: dict[int, int] = {}
        self._attempted: dict[int, int] = {}
        self.moves = 0
        self.commits = 0

    def taken(self, member: str, partition: int) -> None:
        owner = self._owners.get(partition)
        if owner is not None and owner != member:
            self._surprise(member, f"was given {partition}, which {owner} has")
        self._owners[partition] = member
        self.moves += 1
        self._world.trace("owner", member, f"takes {partition}")

    def dropped(self, member: str, partition: int) -> None:
        if self._owners.get(partition) == member:
            del self._owners[partition]
            self._world.trace("owner", member, f"drops {partition}")

    def owners(self) -> dict[int, str]:
        return dict(self._owners)

    def attempts(self, partition: int, offset: int) -> None:
        self._attempted[partition] = max(offset, self._attempted.get(partition, -1))

    def acknowledged(self, partition: int, offset: int) -> None:
        self._acknowledged[partition] = max(offset, self._acknowledged.get(partition, -1))
        self.commits += 1
        self._world.history.offset_commits += 1

    def fetched(self, member: str, partition: int, offset: int) -> None:
        """Found by an owner, who commits nothing meanwhile."""
        low, high = self._acknowledged.get(partition, -1), self._attempted.get(partition, -1)
        if not low <= offset <= high:
            self._surprise(member, f"found offset {offset} of {partition}: {low} to {high} may be")

    def _surprise(self, member: str, text: str) -> None:
        self._world.history.surprise(member, f"group {self.group}: {text}")

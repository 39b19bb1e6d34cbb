"""Wait for consumer groups from synchronous code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ottla.client import Admin, GroupInfo
from ottla.client.aio.pause import pause
from ottla.client.clock import backoff_between, deadline_in
from ottla.client.errors import UnknownGroupError
from ottla.testing.topics import run_in_thread

POLL_FIRST_MS, POLL_MAX_MS = 10, 200


def is_settled(group: GroupInfo, members: int | None) -> bool:
    """Return whether the group has the expected members, each with its assignment."""
    if members == 0:
        return not group.members and group.state == "Empty"
    if group.state != "Stable" or len(group.members) != (members or len(group.members)):
        return False
    return all(member.target is None or member.assignment == member.target for member in group.members)


def wait_for_group(servers: str, group_id: str, members: int | None, timeout_s: float) -> GroupInfo:
    found: list[GroupInfo] = []

    async def look(admin: Admin) -> str | None:
        try:
            group = await admin.describe_group(group_id)
        except UnknownGroupError:
            return "there is no such group"
        if is_settled(group, members):
            found.append(group)
            return None
        names = ", ".join(member.client_id or member.name for member in group.members)
        return f"{group.state} with {len(group.members)} members ({names}){_last_causes(group)}"

    expected = "stable" if members is None else f"stable with {members} members"
    _wait(servers, look, f"group {group_id!r} is not {expected}", timeout_s)
    return found[0]


def wait_for_lag(servers: str, group_id: str, at_most: int, timeout_s: float) -> None:
    async def look(admin: Admin) -> str | None:
        groups = await admin.describe_groups([group_id], missing_ok=True)
        owned = [key for group in groups for key in group.owners]
        rows = await admin.group_lag(group_id, members_read=owned)
        if not rows:
            return "it has no partitions and no offsets"
        # Without a commit, all records count.
        starts = await admin.start_offsets((row.topic, row.partition) for row in rows if row.committed < 0)
        lag = sum(
            max(0, row.end - starts.get((row.topic, row.partition), row.end) if row.lag < 0 else row.lag)
            for row in rows
        )
        return None if lag <= at_most else f"its lag is {lag}"

    _wait(servers, look, f"group {group_id!r} has a lag of more than {at_most}", timeout_s)


def _wait(servers: str, look: Callable[[Admin], Awaitable[str | None]], what: str, timeout_s: float) -> None:
    """Poll until `look` returns None instead of a problem."""

    async def work() -> None:
        deadline = deadline_in(timeout_s * 1000)
        backoff = backoff_between(POLL_FIRST_MS, POLL_MAX_MS)
        async with Admin(servers, client_id="ottla-testing") as admin:
            while True:
                problem = await look(admin)
                if problem is None:
                    return
                if deadline.passed:
                    raise TimeoutError(f"{what} after {timeout_s:g} s: {problem}")
                await pause(backoff, deadline)

    run_in_thread(work)


def _last_causes(group: GroupInfo) -> str:
    if not group.rebalances:
        return ""
    causes = [f"{cause.what} ({cause.client_id})" for cause in group.rebalances[-1].causes]
    return f"; last rebalance: {', '.join(causes)}"

"""Data and output of `ottla group list` and `describe`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.cli.groups.reset_plan import host_of
from ottla.cli.output import console, plural, table
from ottla.cli.records.consume import time_text
from ottla.client import Admin, GroupInfo, GroupMember, PartitionLag, Rebalance, RebalanceCause

CAUSES_SHOWN_MAX = 4


async def list_groups(
    admin: Admin, states: Sequence[str], types: Sequence[str], *, with_lag: bool
) -> list[dict[str, Any]]:
    """Return one row per group, in the form of the JSON output."""
    listed = await admin.list_groups(states, types)
    described = {
        group.group_id: group
        for group in await admin.describe_groups([row.group_id for row in listed], missing_ok=True)
    }
    lags: dict[str, list[PartitionLag]] = {}
    if with_lag:
        lags = await admin.group_lags({name: group.owners for name, group in described.items()})
    return [
        {
            "group": row.group_id,
            "type": described[row.group_id].type,
            "state": described[row.group_id].state,
            "protocol_type": row.protocol_type,
            "members": len(described[row.group_id].members),
            "lag": total_lag(lags[row.group_id]) if with_lag else None,
            "coordinator": row.coordinator,
        }
        for row in listed
        if row.group_id in described
    ]


def total_lag(lags: Sequence[PartitionLag]) -> int | None:
    """Return the lag of all partitions that have one; None if none has."""
    known = [row.lag for row in lags if row.lag >= 0]
    return sum(known) if known else None


async def describe_groups(
    admin: Admin, names: Sequence[str], *, read_committed: bool
) -> list[dict[str, Any]]:
    groups = await admin.describe_groups(names)
    lags = await admin.group_lags(
        {group.group_id: group.owners for group in groups}, read_committed=read_committed
    )
    return [_described(group, lags[group.group_id]) for group in groups]


def _described(group: GroupInfo, lags: Sequence[PartitionLag]) -> dict[str, Any]:
    owners = group.owners
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "coordinator": group.coordinator,
        "lag": total_lag(lags),
        "partitions": [_partition(row, owners.get((row.topic, row.partition))) for row in lags],
        "members": [_member(member) for member in group.members],
        "rebalances": [_rebalance(each) for each in group.rebalances],
    }


def _partition(row: PartitionLag, owner: GroupMember | None) -> dict[str, Any]:
    return {
        "topic": row.topic,
        "partition": row.partition,
        "committed": None if row.committed < 0 else row.committed,
        "end": None if row.end < 0 else row.end,
        "lag": None if row.lag < 0 else row.lag,
        "metadata": row.metadata or "",
        "member": None if owner is None else owner.name,
        "client": None if owner is None else owner.client_id,
        "host": None if owner is None else host_of(owner.client_host),
    }


def _member(member: GroupMember) -> dict[str, Any]:
    to_come = [key for key in member.target or () if key not in member.assignment]
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": host_of(member.client_host),
        "protocol": member.type,
        "epoch": member.epoch,
        "topics": member.topics,
        "pattern": member.pattern,
        "rack": member.rack,
        "assignment": [{"topic": topic, "partition": number} for topic, number in member.assignment],
        "to_come": [{"topic": topic, "partition": number} for topic, number in to_come],
    }


def _rebalance(each: Rebalance) -> dict[str, Any]:
    return {
        "began": time_text(each.began_ms),
        "duration_ms": None if each.duration_ms < 0 else each.duration_ms,
        "epoch": None if each.duration_ms < 0 else each.epoch,
        "members": None if each.duration_ms < 0 else each.members,
        "causes": [_cause(cause) for cause in each.causes],
        "causes_left_out": each.causes_left_out,
    }


def _cause(cause: RebalanceCause) -> dict[str, Any]:
    return {
        "what": cause.what,
        "at": time_text(cause.at_ms),
        "member": cause.member_id,
        "client": cause.client_id,
        "host": host_of(cause.client_host) if cause.client_host else "",
        "detail": cause.detail,
    }


# Text output.


def show_list(rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        print("No groups. A consumer creates one: ottla consume TOPIC --group NAME")
        return
    right = ("members", "lag", "coordinator")
    shown = table("group", "type", "state", *right, right=right)
    for row in rows:
        shown.add_row(row["group"], row["type"], row["state"], *(_text(row[column]) for column in right))
    console.print(shown)


def show_group(group: dict[str, Any], *, rebalances_max: int) -> None:
    print(_headline(group))
    if group["partitions"]:
        print()
        right = ("partition", "committed", "end", "lag")
        columns = ("topic", *right, "member", "client", "host")
        shown = table(*columns, right=right)
        for row in group["partitions"]:
            shown.add_row(*(_text(row[column]) for column in columns))
        console.print(shown)
    idle = [member for member in group["members"] if not member["assignment"]]
    if idle:
        print()
        print("Without partitions:")
        for member in idle:
            print(f"  {member['instance'] or member['member']}  {member['client']} on {member['host']}")
    moving = [member for member in group["members"] if member["to_come"]]
    for member in moving:
        keys = ", ".join(f"{key['topic']}-{key['partition']}" for key in member["to_come"])
        print(f"Being assigned to {member['instance'] or member['member']}: {keys}")
    _show_rebalances(group["rebalances"], rebalances_max)


def _headline(group: dict[str, Any]) -> str:
    words = [group["state"], plural(len(group["members"]), "member")]
    if group["type"] == "consumer":
        words.append(f"consumer protocol ({group['assignor']})")
        epoch = f"epoch {group['epoch']}"
        if group["assignment_epoch"] != group["epoch"]:
            epoch += f" (assigned {group['assignment_epoch']})"
        words.append(epoch)
    else:
        protocol = group["protocol_type"]
        names = [name for name in (group["assignor"], protocol if protocol != "consumer" else "") if name]
        words.append("classic protocol" + (f" ({', '.join(names)})" if names else ""))
        if group["epoch"] >= 0:
            words.append(f"generation {group['epoch']}")
    words.append(f"coordinator {group['coordinator']}")
    if group["lag"] is not None:
        words.append(f"lag {group['lag']}")
    return f"Group {group['group']}: {', '.join(words)}"


def _show_rebalances(rebalances: Sequence[dict[str, Any]], shown_max: int) -> None:
    if not rebalances or shown_max == 0:
        return
    print()
    print("Last rebalances, newest first:")
    for each in list(reversed(rebalances))[:shown_max]:
        if each["duration_ms"] is None:
            outcome = "in progress"
        else:
            outcome = f"took {_duration(each['duration_ms'])}, now epoch {each['epoch']}"
            outcome += f" with {plural(each['members'], 'member')}"
        print(f"  {each['began']}  {outcome}")
        for cause in each["causes"][:CAUSES_SHOWN_MAX]:
            print(f"    {_cause_text(cause)}")
        left_out = len(each["causes"]) - CAUSES_SHOWN_MAX + each["causes_left_out"]
        if left_out > 0:
            print(f"    and {plural(left_out, 'cause')} more")


def _cause_text(cause: dict[str, Any]) -> str:
    text: str = cause["what"]
    if cause["member"]:
        client = f"{cause['client']} " if cause["client"] else ""
        text += f": {client}on {cause['host'] or '-'} ({cause['member']})"
    if cause["detail"]:
        text += f": {cause['detail']}"
    return text


def _duration(duration_ms: int) -> str:
    return f"{duration_ms} ms" if duration_ms < 1000 else f"{duration_ms / 1000:.1f} s"


def _text(value: Any) -> str:
    return "-" if value is None or value == "" else str(value)

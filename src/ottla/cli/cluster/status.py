"""`ottla cluster status`: the state of a cluster, as text or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from ottla.cli.output import EXIT_FAILED, connected, console, plural, print_json, run_command, table
from ottla.client import Admin, ClusterInfo, QuorumInfo, QuorumReplica, TopicInfo
from ottla.client.errors import BrokerError, RequestTimeoutError, UnsupportedApiError

PARTITIONS_SHOWN_MAX = 20
# Time after which a voter or observer that has not caught up counts as lagging; idle quorums append twice a
# second.
QUORUM_BEHIND_MS = 10_000
PROBLEMS = ("offline", "under_min_isr", "under_replicated")

app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)


@app.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    help=f"""Show the brokers, controllers, quorum lag and unhealthy partitions of a cluster.

    The exit code is 0 if the cluster is healthy, 1 if it is not or cannot be reached; the first lines name
    the problems. Healthy means: there is an active controller, no broker is fenced, no voter lags by more
    than {QUORUM_BEHIND_MS // 1000} s, and every partition has a leader and all its replicas are in sync.

    - offline: a partition without a leader
    - under-min-ISR: fewer replicas in sync than min.insync.replicas, so writes with acks=all fail
    - under-replicated: a replica is not in sync

    Examples:

    - `ottla cluster status`
    - `ottla cluster status -b broker-1:9092 --all`
    - `ottla cluster status --json | jq .healthy`
    """,
)
def status(
    show_all: Annotated[
        bool,
        typer.Option(
            "--all", help=f"Show all partitions instead of {PARTITIONS_SHOWN_MAX}; unhealthy ones first."
        ),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    found: dict[str, Any] = {}

    async def work() -> None:
        async with connected(bootstrap) as cluster:
            found.update(await gather(Admin(cluster)))
        rows = found["partitions"]
        if not show_all:
            found["partitions"] = rows[:PARTITIONS_SHOWN_MAX]
        if as_json:
            print_json(found)
        else:
            show(found)

    run_command(work, as_json=as_json)
    if found and not found["healthy"]:
        raise typer.Exit(EXIT_FAILED)


def run(arguments: Sequence[str]) -> int:
    """Run as a separate typer application, so that `ottla cluster` needs no typer."""
    try:
        app(args=list(arguments), prog_name="ottla cluster status")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


async def gather(admin: Admin) -> dict[str, Any]:
    """Collect everything, in the form of the JSON output."""
    info = await admin.describe_cluster(include_fenced=True)
    quorum, quorum_problem = await _quorum(admin)
    topics = await admin.list_topics(include_internal=True)
    partitions = partition_rows(topics, await _min_isr(admin, [topic.name for topic in topics]))
    brokers = broker_rows(info, partitions)
    counts = {name: sum(row[name] for row in partitions) for name in PROBLEMS}
    members = quorum_rows(quorum) if quorum is not None else {"voters": [], "observers": []}
    problems = [quorum_problem] if quorum_problem else []
    problems += problems_of(brokers, members, quorum, counts)
    return {
        "healthy": not problems,
        "problems": problems,
        "cluster_id": info.cluster_id,
        "controller": quorum.leader_id if quorum is not None else None,
        "controller_epoch": quorum.leader_epoch if quorum is not None else None,
        "metadata_offset": quorum.high_watermark if quorum is not None else None,
        "brokers": brokers,
        **members,
        "topics_total": len(topics),
        "partitions_total": len(partitions),
        **{f"{name}_total": count for name, count in counts.items()},
        "partitions": sorted(partitions, key=_unhealthy_first),
    }


async def _quorum(admin: Admin) -> tuple[QuorumInfo | None, str | None]:
    """Return the quorum, or an error message. A cluster without a quorum (ZooKeeper) is not unhealthy."""
    try:
        return await admin.describe_quorum(), None
    except UnsupportedApiError:
        return None, None
    except (BrokerError, RequestTimeoutError) as error:
        return None, f"the metadata quorum does not respond: {error}"


async def _min_isr(admin: Admin, names: Sequence[str]) -> dict[str, int]:
    """Return min.insync.replicas by topic; ignore topics that were deleted in the meantime."""
    if not names:
        return {}
    try:
        configs = await admin.describe_topic_configs(names, ["min.insync.replicas"])
    except BrokerError:
        return {}
    return {
        name: int(entry.value)
        for name, entries in configs.items()
        for entry in entries
        if entry.name == "min.insync.replicas" and entry.value
    }


def partition_rows(topics: Sequence[TopicInfo], min_isr: dict[str, int]) -> list[dict[str, Any]]:
    rows = []
    for topic in topics:
        for number, row in sorted(topic.partitions.items()):
            required = min(min_isr.get(topic.name, 1), len(row.replicas))
            rows.append(
                {
                    "topic": topic.name,
                    "partition": number,
                    "leader": row.leader,
                    "leader_epoch": row.leader_epoch,
                    "replicas": list(row.replicas),
                    "isr": list(row.isr),
                    "min_isr": required,
                    "offline": row.leader < 0,
                    "under_min_isr": len(row.isr) < required,
                    "under_replicated": len(row.isr) < len(row.replicas),
                }
            )
    return rows


def broker_rows(info: ClusterInfo, partitions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the registered brokers, and brokers that occur only in replica lists."""
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    in_sync: dict[int, int] = {}
    for row in partitions:
        leaders[row["leader"]] = leaders.get(row["leader"], 0) + 1
        for node_id in row["replicas"]:
            replicas[node_id] = replicas.get(node_id, 0) + 1
        for node_id in row["isr"]:
            in_sync[node_id] = in_sync.get(node_id, 0) + 1
    nodes = {node.id: node for node in info.nodes}
    rows = []
    for node_id in sorted(nodes.keys() | replicas.keys()):
        node = nodes.get(node_id)
        state = "gone" if node is None else "fenced" if node.is_fenced else "up"
        rows.append(
            {
                "id": node_id,
                "host": node.host if node is not None else None,
                "port": node.port if node is not None else None,
                "rack": node.rack if node is not None else None,
                "state": state,
                "leaders": leaders.get(node_id, 0),
                "replicas": replicas.get(node_id, 0),
                "in_sync": in_sync.get(node_id, 0),
            }
        )
    return rows


def quorum_rows(quorum: QuorumInfo) -> dict[str, list[dict[str, Any]]]:
    """Return voters and observers with their lag, in records and in time."""
    leader_ms = max(
        (row.last_caught_up_ms for row in quorum.voters if row.node_id == quorum.leader_id), default=-1
    )

    def row_of(row: QuorumReplica) -> dict[str, Any]:
        known = leader_ms >= 0 and row.last_caught_up_ms >= 0
        lag_ms = max(0, leader_ms - row.last_caught_up_ms) if known else -1
        # -1 if the leader has never received a fetch from it: it lags by the whole log.
        silent = leader_ms >= 0 and row.last_caught_up_ms < 0 and row.lag != 0
        return {
            "id": row.node_id,
            "leader": row.node_id == quorum.leader_id,
            "end_offset": row.end_offset,
            "lag": row.lag,
            "lag_ms": lag_ms,
            "behind": silent or lag_ms > QUORUM_BEHIND_MS,
        }

    return {
        "voters": [row_of(row) for row in quorum.voters],
        "observers": [row_of(row) for row in quorum.observers],
    }


def problems_of(
    brokers: Sequence[dict[str, Any]],
    members: dict[str, list[dict[str, Any]]],
    quorum: QuorumInfo | None,
    counts: dict[str, int],
) -> list[str]:
    """Return one line per problem, the worst first."""
    found = []
    if quorum is not None and quorum.leader_id < 0:
        found.append("no active controller: a majority of the voters must be up")
    if counts["offline"]:
        found.append(f"{plural(counts['offline'], 'partition')} offline: no eligible replica is up")
    if counts["under_min_isr"]:
        found.append(
            f"{plural(counts['under_min_isr'], 'partition')} under min.insync.replicas: acks=all fails"
        )
    if counts["under_replicated"]:
        found.append(f"{plural(counts['under_replicated'], 'partition')} under-replicated")
    for row in brokers:
        if row["state"] == "fenced":
            found.append(f"broker {row['id']} is fenced: it is down or cannot reach the controller")
        elif row["state"] == "gone":
            found.append(
                f"broker {row['id']} is not registered, but has {plural(row['replicas'], 'replica')}"
            )
    found += [f"voter {row['id']} lags by {_lag(row)}" for row in members["voters"] if row["behind"]]
    return found


def _unhealthy_first(row: dict[str, Any]) -> tuple[object, ...]:
    return (*(not row[name] for name in PROBLEMS), row["topic"], row["partition"])


def _lag(row: dict[str, Any]) -> str:
    records = plural(row["lag"], "record") if row["lag"] >= 0 else "all records"
    return f"{records}, {row['lag_ms'] / 1000:.1f} s" if row["lag_ms"] >= 0 else records


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "-"


def show(found: dict[str, Any]) -> None:
    """Print whether the cluster is healthy, then brokers, quorum and partitions."""
    if found["healthy"]:
        console.print("[green]healthy[/green]")
    for problem in found["problems"]:
        console.print(f"[red]not healthy:[/red] {problem}")
    controller = found["controller"]
    leader = "unknown" if controller is None else "none" if controller < 0 else str(controller)
    console.print(f"cluster {found['cluster_id']}, active controller {leader}", style="dim")
    console.print()
    _show_brokers(found["brokers"])
    if found["voters"]:
        console.print()
        _show_quorum(found)
    console.print()
    _show_partitions(found)


def _show_brokers(rows: Sequence[dict[str, Any]]) -> None:
    numbers = ("broker", "leaders", "replicas", "in sync")
    racks = any(row["rack"] for row in rows)
    columns = ["broker", "address", *(["rack"] if racks else []), "state", "leaders", "replicas", "in sync"]
    shown = table(*columns, right=numbers)
    for row in rows:
        address = f"{row['host']}:{row['port']}" if row["host"] is not None else "-"
        rack = [row["rack"] or "-"] if racks else []
        counts = [str(row[name]) for name in ("leaders", "replicas", "in_sync")]
        style = None if row["state"] == "up" else "yellow"
        shown.add_row(str(row["id"]), address, *rack, row["state"], *counts, style=style)
    console.print(shown)


def _show_quorum(found: dict[str, Any]) -> None:
    shown = table(
        "quorum", "role", "end offset", "lag", "lag ms", right=("quorum", "end offset", "lag", "lag ms")
    )
    for role in ("voters", "observers"):
        for row in found[role]:
            name = "active controller" if row["leader"] else role[:-1]
            numbers = [str(row[key]) if row[key] >= 0 else "?" for key in ("end_offset", "lag", "lag_ms")]
            shown.add_row(str(row["id"]), name, *numbers, style="yellow" if row["behind"] else None)
    console.print(shown)


def _show_partitions(found: dict[str, Any]) -> None:
    total, rows = found["partitions_total"], found["partitions"]
    counts = ", ".join(
        f"{found[f'{name}_total']} {text}"
        for name, text in zip(PROBLEMS, ("offline", "under min ISR", "under-replicated"), strict=True)
    )
    console.print(f"{plural(total, 'partition')} of {plural(found['topics_total'], 'topic')}: {counts}")
    if not rows:
        return
    shown = table(
        "topic", "partition", "leader", "replicas", "in sync", "problem", right=("partition", "leader")
    )
    for row in rows:
        problem = ", ".join(name.replace("_", " ") for name in PROBLEMS if row[name])
        leader = str(row["leader"]) if row["leader"] >= 0 else "[red]none[/red]"
        shown.add_row(
            row["topic"],
            str(row["partition"]),
            leader,
            _ids(row["replicas"]),
            _ids(row["isr"]),
            problem or "-",
            style="yellow" if problem else None,
        )
    console.print(shown)
    if len(rows) < total:
        console.print(f"{total - len(rows)} more; use --all to show them", style="dim")

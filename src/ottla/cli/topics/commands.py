"""`ottla topic`: create, list, describe, alter, delete."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, pairs
from ottla.cli.output import connected, console, plural, print_json, run_command, table
from ottla.client import Admin, NewTopic
from ottla.client.errors import TopicExistsError, UnknownTopicError
from ottla.protocol.uuids import uuid_to_text

app = typer.Typer(
    help="Create, list, describe, alter and delete topics.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Names = Annotated[
    list[str], typer.Argument(metavar="TOPIC", help="One or more topic names.", show_default=False)
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--config", "-c", metavar="KEY=VALUE", help="Topic property, by its Kafka name; may be repeated."
    ),
]


@app.command(
    "create",
    help="""Create topics.

    Examples:

    - `ottla topic create orders`
    - `ottla topic create orders --partitions 6 -c retention.ms=86400000`
    - `ottla topic create users -c cleanup.policy=compact --if-not-exists`
    """,
)
def create(
    names: Names,
    *,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, help="Number of partitions.", show_default="the broker's default"
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            help="Replication factor.",
            show_default="the broker's default",
        ),
    ] = None,
    config: Settings = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do not fail if the topic exists.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check whether the topic could be created.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    configs = pairs(config or (), "--config", "retention.ms=86400000")

    async def work() -> None:
        created = []
        existing = []
        async with connected(bootstrap) as cluster:
            admin = Admin(cluster)
            for name in names:
                topic = NewTopic(name, partitions or -1, replication_factor or -1, configs)
                try:
                    created += await admin.create_topics([topic], validate_only=dry_run)
                except TopicExistsError:
                    if not if_not_exists:
                        raise
                    existing.append(name)
        if as_json:
            rows = [{**topic._asdict(), "id": uuid_to_text(topic.id)} for topic in created]
            print_json({"created": rows, "existing": existing, "dry_run": dry_run})
            return
        verb = "Could create" if dry_run else "Created"
        for row in created:
            known = f" with {plural(row.partitions, 'partition')}" if row.partitions > 0 else ""
            print(f"{verb} topic {row.name}{known}")
        for name in existing:
            print(f"Topic {name} already exists")

    run_command(work, as_json=as_json)


@app.command(
    "list",
    help="""List topics.

    Examples:

    - `ottla topic list`
    - `ottla topic list --internal --json | jq -r '.topics[].name'`
    """,
)
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    async def work() -> None:
        async with connected(bootstrap) as cluster:
            found = await Admin(cluster).list_topics(include_internal=internal)
        rows = []
        for topic in found:
            replicas = max((len(row.replicas) for row in topic.partitions.values()), default=0)
            rows.append((topic, len(topic.partitions), replicas))
        if as_json:
            print_json(
                {
                    "topics": [
                        {
                            "name": topic.name,
                            "id": uuid_to_text(topic.id),
                            "internal": topic.is_internal,
                            "partitions": partitions,
                            "replication_factor": replicas,
                        }
                        for topic, partitions, replicas in rows
                    ]
                }
            )
        elif not rows:
            print("No topics yet. Create one: ottla topic create NAME")
        else:
            shown = table("topic", "partitions", "replicas", right=("partitions", "replicas"))
            for topic, partitions, replicas in rows:
                shown.add_row(topic.name, str(partitions), str(replicas))
            console.print(shown)

    run_command(work, as_json=as_json)


@app.command(
    "describe",
    help="""Show partitions, leaders, replicas, offsets, sizes and configs of topics.

    `in sync` are the in-sync replicas (ISR). `elr` are the eligible leader replicas, which may become leader
    without data loss when the ISR is empty; `last elr` are the last known ones. `epoch` is the leader epoch.

    Examples:

    - `ottla topic describe orders`
    - `ottla topic describe orders --all-configs --json`
    """,
)
def describe(
    names: Names,
    all_configs: Annotated[
        bool, typer.Option("--all-configs", help="Include properties with default values.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    from ottla.cli.topics.view import describe_topics, show_topic

    async def work() -> None:
        async with connected(bootstrap) as cluster:
            described = await describe_topics(Admin(cluster), names, all_configs=all_configs)
        if as_json:
            print_json({"topics": described})
            return
        for number, topic in enumerate(described):
            if number:
                print()
            show_topic(topic)

    run_command(work, as_json=as_json)


@app.command(
    "alter",
    help="""Change properties of a topic, or add partitions.

    Examples:

    - `ottla topic alter orders --set retention.ms=3600000 --unset max.message.bytes`
    - `ottla topic alter orders --partitions 12`
    """,
)
def alter(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)],
    *,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="Set a property; may be repeated."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="KEY", help="Reset a property to its default; may be repeated."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, help="New number of partitions; it can only increase."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    values = pairs(settings or (), "--set", "retention.ms=3600000")
    if not values and not unset and partitions is None:
        raise typer.BadParameter("nothing to change: use --set, --unset or --partitions")

    async def work() -> None:
        async with connected(bootstrap) as cluster:
            admin = Admin(cluster)
            await admin.describe_topics([name])
            if values or unset:
                await admin.alter_topic_configs(name, values=values, unset=unset or ())
            if partitions is not None:
                await admin.create_partitions(name, partitions)
        changes = [f"{key}={value}" for key, value in values.items()] + [
            f"{key} unset" for key in unset or ()
        ]
        if partitions is not None:
            changes.append(plural(partitions, "partition"))
        if as_json:
            print_json({"topic": name, "set": values, "unset": unset or [], "partitions": partitions})
        else:
            print(f"Altered topic {name}: {', '.join(changes)}")

    run_command(work, as_json=as_json)


@app.command(
    "delete",
    help="""Delete topics with all their records.

    On a terminal, asks for confirmation unless `--yes` is given.

    Examples:

    - `ottla topic delete orders`
    - `ottla topic delete tmp-1 tmp-2 --yes --if-exists`
    """,
)
def delete(
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do not fail if a topic does not exist.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    if not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
        typer.confirm(f"Delete {', '.join(names)} and all its records?", abort=True)

    async def work() -> None:
        deleted = []
        missing = []
        async with connected(bootstrap) as cluster:
            admin = Admin(cluster)
            for name in names:
                try:
                    await admin.delete_topics([name])
                    deleted.append(name)
                except UnknownTopicError:
                    if not if_exists:
                        raise
                    missing.append(name)
        if as_json:
            print_json({"deleted": deleted, "missing": missing})
            return
        for name in deleted:
            print(f"Deleted topic {name}")
        for name in missing:
            print(f"Topic {name} does not exist")

    run_command(work, as_json=as_json)

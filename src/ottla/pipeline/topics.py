"""The topics of a pipeline, looked at before Spark starts: sources must exist, targets are made."""

from __future__ import annotations

from ottla.client import Admin, ClusterClient, NewTopic
from ottla.client.errors import BrokerError
from ottla.pipeline.definition.document import Problems, suggestion
from ottla.pipeline.definition.model import Pipeline
from ottla.pipeline.plan import queries_of
from ottla.protocol.errors import ErrorCode


def wanted_topics(pipeline: Pipeline) -> dict[str, NewTopic]:
    """What the pipeline writes to, as it would be created."""
    found: dict[str, NewTopic] = {}
    for sink in pipeline.sinks.values():
        if sink.kind == "topic":
            name = str(sink.target)
            configs = {"cleanup.policy": "compact"} if sink.compacted else {}
            found[name] = NewTopic(name, sink.partitions or -1, -1, configs)
    if any(plan.is_dead_letters for plan in queries_of(pipeline)):
        name = str(pipeline.options.dead_letter)
        found.setdefault(name, NewTopic(name, 1))
    return found


async def prepare_topics(cluster: ClusterClient, pipeline: Pipeline, problems: Problems) -> list[str]:
    """Complain about missing sources, create missing targets; the names that were created."""
    admin = Admin(cluster)
    there = {topic.name: topic for topic in await admin.list_topics()}
    wanted = wanted_topics(pipeline)
    for source in pipeline.sources.values():
        for topic in source.topics:
            if topic not in there and topic not in wanted:
                hint = suggestion(topic, there) or f"'ottla topic create {topic}' makes it"
                problems.add(topic.mark, f"source '{source.name}': there is no topic '{topic}'; {hint}")
    if problems.errors:
        return []
    created = []
    for name, new in wanted.items():
        if name not in there:
            try:
                await admin.create_topics([new])
            except BrokerError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            await admin.wait_for_topic(name)
            created.append(name)
    return created

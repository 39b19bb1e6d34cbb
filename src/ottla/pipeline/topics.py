"""The topics of a pipeline: source topics must exist, target topics are created."""

from __future__ import annotations

from ottla.client import Admin, ClusterClient, NewTopic
from ottla.client.errors import BrokerError
from ottla.pipeline.definition.document import Problems, suggestion
from ottla.pipeline.definition.model import Pipeline
from ottla.pipeline.plan import queries_of
from ottla.protocol.errors import ErrorCode


def wanted_topics(pipeline: Pipeline) -> dict[str, NewTopic]:
    """Return the topics that the pipeline writes to, as they would be created."""
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
    """Report missing source topics and create missing target topics. Returns the names of created topics."""
    admin = Admin(cluster)
    existing = {topic.name: topic for topic in await admin.list_topics()}
    wanted = wanted_topics(pipeline)
    for source in pipeline.sources.values():
        for topic in source.topics:
            if topic not in existing and topic not in wanted:
                hint = suggestion(topic, existing) or f"create it with 'ottla topic create {topic}'"
                problems.add(topic.mark, f"source '{source.name}': topic '{topic}' does not exist; {hint}")
    if problems.errors:
        return []
    created = []
    for name, new in wanted.items():
        if name not in existing:
            try:
                await admin.create_topics([new])
            except BrokerError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            await admin.wait_for_topic(name)
            created.append(name)
    return created

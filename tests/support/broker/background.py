"""Background tasks for parts that are tested without a node."""

from __future__ import annotations

from ottla.broker.background import BackgroundTasks


def strict_tasks() -> BackgroundTasks:
    """Tasks of a part whose background work must not fail for good."""

    def fatal(error: BaseException) -> None:
        raise error

    return BackgroundTasks(fatal)

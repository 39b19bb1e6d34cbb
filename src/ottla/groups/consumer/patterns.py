"""The subscription patterns of a shard's members, compiled once, and the topics that they match."""

from __future__ import annotations

from ottla.groups.consumer.topic_pattern import TopicPattern
from ottla.groups.topics_view import TopicsView

# The number of compiled patterns to keep; beyond it the oldest is dropped.
PATTERNS_MAX = 256


class Patterns:
    __slots__ = ("_compiled", "_resolved", "_topics")

    def __init__(self, topics: TopicsView) -> None:
        self._topics = topics
        self._compiled: dict[str, TopicPattern] = {}
        # The epoch of the topics view, and the matches in it.
        self._resolved: dict[str, tuple[int, tuple[str, ...]]] = {}

    def resolve(self, text: str) -> tuple[str, ...]:
        """Return the names of matching topics, internal ones included, as Kafka does. Raises PatternError
        for an invalid or too slow pattern."""
        epoch = self._topics.epoch
        known = self._resolved.get(text)
        if known is not None and known[0] == epoch:
            return known[1]
        pattern = self._compiled.get(text)
        if pattern is None:
            pattern = TopicPattern(text)
            if len(self._compiled) >= PATTERNS_MAX:
                oldest = next(iter(self._compiled))
                del self._compiled[oldest]
                self._resolved.pop(oldest, None)
            self._compiled[text] = pattern
        names = tuple(pattern.matching(self._topics.topic_names()))
        self._resolved[text] = (epoch, names)
        return names

"""Match names against a pattern in bounded time, also for hostile patterns.

The pattern becomes a nondeterministic automaton of bounded size, from which a deterministic one is built
lazily: a character that was seen before in the same state is one look-up. All work is counted, and a
resolution that takes too many steps is aborted: it would block the broker, not only its own group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.groups.consumer.pattern_syntax import (
    ALPHABET,
    BITS,
    BOUNDARY,
    END,
    NO_BOUNDARY,
    START,
    WORD,
    PatternError,
    Tree,
    parse_pattern,
)

NODES_MAX = 3000
# States of the deterministic automaton; it is rebuilt when it has more.
_STATES_MAX = 1000
# Visits of nodes while new states are built, about 300 ns each.
STEPS_MAX = 1_000_000

# Nodes: what to match, and the next node. A negative set of characters is the kind of another node.
_SPLIT: Final = -1
_ASSERT: Final = -2
_MATCH: Final = -3

# What precedes a position.
_NOTHING: Final = 0
_WORD_CHARACTER: Final = 1
_OTHER_CHARACTER: Final = 2

_WORDS: Final = frozenset(character for character in ALPHABET if BITS[character] & WORD)


class TopicPattern:
    """A compiled pattern. Raises PatternError if it is invalid or too large."""

    __slots__ = ("_accepts", "_nodes", "_numbers", "_start", "_states", "_steps_left", "_transitions", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        # (characters, next) or (_SPLIT, one, other) or (_ASSERT, where, next) or (_MATCH,)
        self._nodes: list[tuple[int, ...] | tuple[int, str, int]] = [(_MATCH,)]
        try:
            self._start = self._add(parse_pattern(text), 0)
        except (
            RecursionError
        ) as error:  # bounded by the depth of groups; repetitions of repetitions add to it
            raise PatternError("nested too deeply") from error
        self._steps_left = 0
        self._forget()

    def matching(self, names: Iterable[str]) -> list[str]:
        """Return the names that match as a whole, in order. Raises PatternError if it takes too long."""
        self._steps_left = STEPS_MAX
        return [name for name in names if self._matches(name)]

    def _matches(self, name: str) -> bool:
        state = 0
        for character in name:
            following = self._transitions[state].get(character)
            if following is None:
                following = self._step(state, character)
            if following < 0:
                return False
            state = following
        accepts = self._accepts[state]
        if accepts is None:
            nodes, before = self._states[state]
            accepts = self._accepts[state] = 0 in self._reachable(nodes, before, "")
        return accepts

    # The deterministic automaton.

    def _forget(self) -> None:
        self._states: list[tuple[tuple[int, ...], int]] = []
        self._numbers: dict[tuple[tuple[int, ...], int], int] = {}
        self._transitions: list[dict[str, int]] = []
        self._accepts: list[bool | None] = []
        self._number((self._start,), _NOTHING)

    def _number(self, nodes: tuple[int, ...], before: int) -> int:
        key = (nodes, before)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._states)
            self._states.append(key)
            self._transitions.append({})
            self._accepts.append(None)
        return number

    def _step(self, state: int, character: str) -> int:
        nodes, before = self._states[state]
        bit = BITS.get(character, 0)
        following: dict[int, None] = {}
        for index in self._reachable(nodes, before, character):
            node = self._nodes[index]
            characters = node[0]
            if characters > 0 and characters & bit:
                following[node[1]] = None  # type: ignore[index]
        if not following:
            self._transitions[state][character] = -1
            return -1
        if len(self._states) >= _STATES_MAX:
            self._forget()
            state = -1
        here = _WORD_CHARACTER if character in _WORDS else _OTHER_CHARACTER
        number = self._number(tuple(sorted(following)), here)
        if state >= 0:
            self._transitions[state][character] = number
        return number

    def _reachable(self, nodes: Iterable[int], before: int, character: str) -> dict[int, None]:
        """Nodes reached without a character, between the previous one and `character` ("": the end)."""
        seen: dict[int, None] = {}
        todo = list(nodes)
        while todo:
            index = todo.pop()
            if index in seen:
                continue
            seen[index] = None
            node = self._nodes[index]
            if node[0] == _SPLIT:
                todo.append(node[1])  # type: ignore[arg-type]
                todo.append(node[2])
            elif node[0] == _ASSERT and _holds(node[1], before, character):  # type: ignore[arg-type]
                todo.append(node[2])
        self._steps_left -= len(seen)
        if self._steps_left < 0:
            raise PatternError("matching takes too long")
        return seen

    # The nondeterministic automaton, built from its end: each tree is put before its successor.

    def _node(self, node: tuple[int, ...] | tuple[int, str, int]) -> int:
        if len(self._nodes) >= NODES_MAX:
            raise PatternError("too large")
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _add(self, tree: Tree, following: int) -> int:
        kind = tree[0]
        if kind == "set":
            return self._node((tree[1], following))
        if kind == "at":
            return self._node((_ASSERT, tree[1], following))
        if kind == "cat":
            for part in reversed(tree[1]):
                following = self._add(part, following)
            return following
        if kind == "or":
            first, *others = (self._add(branch, following) for branch in tree[1])
            for other in others:
                first = self._node((_SPLIT, first, other))
            return first
        _, repeated, least, most = tree
        return self._add_times(repeated, least, most, following)

    def _add_times(self, tree: Tree, least: int, most: int, following: int) -> int:
        if most < 0:
            loop = self._node((_SPLIT, following, following))
            self._nodes[loop] = (_SPLIT, self._add(tree, loop), following)
            following = loop
        else:
            end = following
            for _ in range(most - least):
                following = self._node((_SPLIT, self._add(tree, following), end))
        for _ in range(least):
            following = self._add(tree, following)
        return following


def _holds(where: str, before: int, character: str) -> bool:
    if where == START:
        return before == _NOTHING
    if where == END:
        return character == ""
    is_boundary = (before == _WORD_CHARACTER) != (character in _WORDS)
    assert where in (BOUNDARY, NO_BOUNDARY)
    return is_boundary == (where == BOUNDARY)

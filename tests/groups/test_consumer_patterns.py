"""Topic patterns: RE2's syntax, whole names, and time that no pattern can blow up."""

from __future__ import annotations

import re
from random import Random
from time import perf_counter

import pytest

from ottla.groups.consumer.pattern_syntax import PatternError
from ottla.groups.consumer.patterns import PATTERNS_MAX, Patterns
from ottla.groups.consumer.topic_pattern import TopicPattern
from tests.support.groups.fixed_topics import FixedTopics


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("", [], ["a"]),
        ("orders", ["orders"], ["orders2", "my-orders", "Orders"]),
        ("orders-.*", ["orders-", "orders-eu"], ["orders"]),
        ("a|b|", ["a", "b"], ["ab"]),
        ("(?i)Ab[c]", ["abc", "ABC"], ["abd"]),
        ("(?i:a)b", ["ab", "Ab"], ["aB"]),
        ("((?i)a)b", ["Ab"], ["AB"]),
        ("(?i)a(?-i)b", ["Ab"], ["AB"]),
        ("(?P<x>a)(?<y>b)(?:c)", ["abc"], ["ab"]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb"]),
        (r"a\.b", ["a.b"], ["a-b"]),
        (r"\d+\D", ["1a", "12-"], ["a1", "12"]),
        (r"\w\W", ["a-", "_."], ["ab"]),
        (r"\pL\pN\p{Lu}\P{L}", ["a1B_"], ["a1bb"]),
        (r"\p{^L}", ["1"], ["a"]),
        (r"[[:alpha:]][[:^digit:]]", ["ab", "a-"], ["a1"]),
        (r"[^a-c]", ["d", "-"], ["a", "b"]),
        (r"[]a]", ["a"], ["b"]),
        (r"[a\-z]", ["a", "-", "z"], ["b"]),
        (r"[-a]", ["-", "a"], ["b"]),
        (r"[\d_]", ["1", "_"], ["a"]),
        (r"a/b:[^/]+", ["a/b:c", "a/b:c d"], ["a/b:", "a/b:c/d"]),
        (r"[[:punct:]]\pS\p{Po}\s", ["/+: "], ["a+: ", "/a: ", "/++ "]),
        (r"a{2}", ["aa"], ["a", "aaa"]),
        (r"a{2,}", ["aa", "aaaa"], ["a"]),
        (r"a{1,2}", ["a", "aa"], ["aaa"]),
        (r"x{,2}", [], ["x", "xx"]),
        (r"a+?b*?c??", ["a", "aabb", "abc"], ["b"]),
        (r"^a$", ["a"], ["ab"]),
        (r"a^b", [], ["ab"]),
        (r"\Aa\z", ["a"], ["b"]),
        (r".*\bx\b.*", ["a-x-b", "x"], ["axb", "a_x"]),
        (r"a\Bb", ["ab"], ["a-b"]),
        (r"\x61\x{62}\141\056", ["aba."], ["abab"]),
        (r"[[:word:]]+", ["a_1"], ["a-"]),
        (r"a/b|c\/d| ", [], ["ab", "cd"]),
    ],
)
def test_syntax(pattern: str, names: list[str], others: list[str]) -> None:
    assert TopicPattern(pattern).matching(names + others) == names


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a)",
        "[a",
        "[b-a]",
        "*a",
        "a**",
        "a{2}{3}",
        "a{3,2}",
        "a{1001}",
        "a{99999}",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?<!a)",
        "(?P=x)",
        "(?P<1>a)",
        "(?P<x",
        "(?x)a",
        "(?#c)",
        "(?",
        r"\1",
        r"\8",
        r"(a)\2",
        r"\y",
        r"\Z",
        "\\",
        r"\x",
        r"\x{zz}",
        r"\x{110000}",
        r"\xg1",
        r"\p{Klingon}",
        r"\p{L",
        "[[:foo:]]",
        "(" * 200 + ")" * 200,
        "a" * 1001,
        "(a{100}){100}",
        "((((a{9}){9}){9}){9}){9}",
    ],
)
def test_invalid_patterns(pattern: str) -> None:
    with pytest.raises(PatternError):
        TopicPattern(pattern)


def random_pattern(rng: Random, depth: int = 0) -> str:
    kind = rng.random()
    if depth > 3 or kind < 0.35:
        return rng.choice(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\d", "-", "_", "[a-c]", r"\.", "0"])
    inner = random_pattern(rng, depth + 1)
    if kind < 0.6:
        return inner + random_pattern(rng, depth + 1)
    if kind < 0.72:
        return f"({inner}|{random_pattern(rng, depth + 1)})"
    if kind < 0.85:
        return f"(?:{inner}){rng.choice(['*', '+', '?', '{2}', '{1,2}', '{0,}', '*?'])}"
    if kind < 0.9:
        return rng.choice(["^", "$", r"\b", r"\B"])
    return f"(?i:{inner})"


def test_matches_agree_with_other_implementations() -> None:
    rng = Random(848)
    names = ["".join(rng.choices("abAB0._-c", k=rng.randrange(1, 7))) for _ in range(40)]
    matched = 0
    for _ in range(400):
        text = random_pattern(rng)
        other = re.compile(text.replace("$", r"\Z"), re.ASCII)
        expected = [name for name in names if other.fullmatch(name)]
        assert TopicPattern(text).matching(names) == expected, text
        matched += len(expected)
    assert matched > 500


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "(a*)*b",
        "((((a*)*)*)*)*b",
        ".*.*.*.*.*.*.*x",
        "(a?){60}a{60}b",
        "(.|..|...)*x",
        "((.*)(.*)){50}x",
    ],
)
def test_hostile_patterns_take_no_time(pattern: str) -> None:
    start = perf_counter()
    assert TopicPattern(pattern).matching(["a" * 249] * 10) == []
    assert perf_counter() - start < 1


def test_expensive_resolutions_are_aborted() -> None:
    rng = Random(1)
    names = ["".join(rng.choices("ab", k=249)) for _ in range(1000)]
    start = perf_counter()
    with pytest.raises(PatternError, match="too long"):
        TopicPattern("(.*a.{400}|.*b.{300}|.*a.{200})*").matching(names)
    assert perf_counter() - start < 3


def test_a_pattern_with_many_states_forgets_some() -> None:
    rng = Random(2)
    names = ["".join(rng.choices("ab", k=60)) for _ in range(60)]
    pattern = TopicPattern(".*a.{10}")
    assert pattern.matching(names) == [name for name in names if name[-11] == "a"]


def test_resolved_once_per_epoch() -> None:
    topics = FixedTopics({"ta": 1, "tb": 1, "x": 1})
    patterns = Patterns(topics)
    assert patterns.resolve("t.") == ("ta", "tb")
    assert patterns.resolve("t.") is patterns.resolve("t.")
    topics.drop("ta")
    assert patterns.resolve("t.") == ("tb",)
    for number in range(PATTERNS_MAX + 10):
        assert patterns.resolve(f"t|x{number}") == ()
    assert patterns.resolve("t.") == ("tb",)

"""The syntax of .properties files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.properties import PropertiesError, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1", {"a": "1"}),
        ("a: 1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("  a\t=\t b c ", {"a": "b c "}),
        ("# a=1\n! b=2\n\n  # c=3\nd=4", {"d": "4"}),
        ("a=1\\\n   2\\\n3", {"a": "123"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        (r"a\=b\:c\ d = x", {"a=b:c d": "x"}),
        (r"a=\t\n\r\f\q", {"a": "\t\n\r\fq"}),
        (r"a=\u00e9\u0041", {"a": "éA"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("url=PLAINTEXT://:9092", {"url": "PLAINTEXT://:9092"}),
        ("a==b", {"a": "=b"}),
        ("a=1\\", {"a": "1"}),
        ("", {}),
    ],
)
def test_syntax(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\uzzzz", r"a=\u+123"])
def test_bad_unicode_escape_names_the_line(text: str) -> None:
    with pytest.raises(PropertiesError, match="line 2"):
        parse_properties("# first\n" + text)


def _escape(text: str, key: bool) -> str:
    specials = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    escaped = []
    for index, char in enumerate(text):
        if char in specials:
            escaped.append(specials[char])
        elif (char in "=:#! " and key) or (char in " =:" and index == 0):
            escaped.append("\\" + char)
        else:
            escaped.append(char)
    return "".join(escaped)


_texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\\\n\r\t\f=: #!"))


@given(st.dictionaries(_texts.filter(bool), _texts))
def test_round_trip(values: dict[str, str]) -> None:
    text = "\n".join(f"{_escape(key, True)}={_escape(value, False)}" for key, value in values.items())
    assert parse_properties(text) == values

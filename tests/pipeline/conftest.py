"""Fixtures that validate and load pipelines from text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.pipeline.definition.model import Pipeline
from ottla.pipeline.definition.validation import validate

HEAD = """\
pipeline: test
sources:
  orders:
    topic: orders
    schema: id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP
  clicks:
    topic: clicks
    schema: id BIGINT, at TIMESTAMP
    watermark: {column: at, delay: 10 seconds}
  views:
    topic: views
    schema: id BIGINT, at TIMESTAMP
    watermark: {column: at, delay: 10 seconds}
  customers:
    topic: customers
    schema: customer STRING, name STRING
    table: true
"""


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., list[str]]:
    """check(text): the problems of a file as `LINE:COLUMN: severity: text`; warnings only on request."""

    def act(text: str, warnings: bool = False, **settings: str) -> list[str]:
        path = tmp_path / "pipeline.yaml"
        path.write_text(textwrap.dedent(text))
        _, problems = validate(str(path), settings)
        return [each.shown("")[1:] for each in problems if warnings or not each.is_warning]

    return act


@pytest.fixture
def checked(check) -> Callable[..., list[str]]:
    """checked(steps, sinks): the messages without positions, for steps and sinks below HEAD."""

    def act(*parts: str, warnings: bool = False) -> list[str]:
        found = check(HEAD + "".join(textwrap.dedent(part) for part in parts), warnings)
        return [each.split(": ", 2)[2] for each in found]

    return act


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Pipeline]:
    """load(text): a valid pipeline."""

    def act(text: str, **settings: str) -> Pipeline:
        path = tmp_path / "pipeline.yaml"
        path.write_text(textwrap.dedent(text))
        pipeline, problems = validate(str(path), settings)
        assert not problems.errors, problems.errors
        assert pipeline is not None
        return pipeline

    return act

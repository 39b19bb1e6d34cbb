"""The help texts of the commands are Markdown: an indented paragraph would be shown as code."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer.main

from ottla.cli.app import app


def help_texts(command: Any, path: str = "ottla") -> Iterator[tuple[str, str]]:
    yield path, command.help or ""
    for name, each in getattr(command, "commands", {}).items():
        yield from help_texts(each, f"{path} {name}")


def test_no_paragraph_of_a_help_text_is_indented():
    texts = dict(help_texts(typer.main.get_command(app)))
    assert "ottla txn abort" in texts
    indented = [
        (path, line)
        for path, text in texts.items()
        for line in inspect.cleandoc(text).splitlines()
        if line.startswith("    ")
    ]
    assert indented == []

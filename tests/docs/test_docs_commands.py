"""Every `ottla` command in the documentation exists, with the options that are shown."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import typer.main

from ottla.cli.app import app
from ottla.cli.broker import serve
from ottla.cli.cluster import commands as cluster

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# In a code block, at the start of a line or after a pipe; or in backticks.
COMMAND = re.compile(r"(?:^(?: {4})?(?:\$ )?|\| |`)ottla ((?:[a-z]+ ?)[^`#\n]*)", re.MULTILINE)
# Parsed by argparse, so that a broker starts without typer.
LIGHT = {"serve": serve.build_parser, "cluster": cluster.build_parser}


def commands(text: str) -> list[list[str]]:
    """The commands of a page as lists of words, up to a pipe or a redirection."""
    return [
        re.split(r"[|<>&]", found)[0].replace("[", " ").replace("]", " ").split()
        for found in COMMAND.findall(text)
    ]


def problem(words: list[str]) -> str | None:
    """What is wrong with a command, or None."""
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    if words[0] in LIGHT:
        known = set(LIGHT[words[0]]()._option_string_actions)
        return next((f"no option {option}" for option in options if option not in known), None)
    command: click.Command = typer.main.get_command(app)  # type: ignore[assignment]
    for word in words:
        if not hasattr(command, "commands"):
            break
        if word not in command.commands:
            return f"no command {word}"
        command = command.commands[word]
    known = {"--help"}.union(*(parameter.opts + parameter.secondary_opts for parameter in command.params))
    return next((f"no option {option}" for option in options if option not in known), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_exist(page: Path) -> None:
    text = re.sub(r"ottla (\w+) (\w+(?:\|\w+)+)", r"ottla \1", page.read_text())  # ottla group list|reset
    shown = [words for words in commands(text) if words]
    problems = {" ".join(words): problem(words) for words in shown}
    assert {command: reason for command, reason in problems.items() if reason is not None} == {}

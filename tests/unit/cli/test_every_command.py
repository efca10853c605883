"""What holds for every command: JSON for programs, and text that fits a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from etl.cli import app

WITHOUT_JSON = {
    ("pipeline", "schema"): "prints JSON, and nothing else",
    ("generate", "live"): "ends when it is interrupted, and tells nothing",
}


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every group and every command, by the words that one types."""
    yield words, group
    for name, one in getattr(group, "commands", {}).items():
        yield from commands(one, (*words, name))


ALL = dict(commands(typer.main.get_command(app)))
LEAVES = {words: one for words, one in ALL.items() if not getattr(one, "commands", None)}


def test_there_are_commands() -> None:
    assert len(LEAVES) > 45


@pytest.mark.parametrize("words", sorted(LEAVES), ids=" ".join)
def test_every_command_prints_json_when_asked(words: tuple[str, ...]) -> None:
    options = {option for one in LEAVES[words].params for option in one.opts}
    assert ("--json" in options) != (words in WITHOUT_JSON)


@pytest.mark.parametrize("words", sorted(ALL), ids=" ".join)
def test_help_fits_eighty_columns(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = CliRunner().invoke(app, [*words, "--help"])
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80

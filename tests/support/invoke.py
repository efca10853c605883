"""Commands of ours, called in this process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from etl.cli import app


def invoke(*words: str) -> Result:
    """`frontstage` with these words, and what it printed."""
    return CliRunner().invoke(app, words)

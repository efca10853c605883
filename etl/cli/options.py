"""Options that several commands have."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def print_json(value: Any) -> None:
    """The one thing on standard output of a command that was asked for JSON."""
    typer.echo(json.dumps(value, indent=2))

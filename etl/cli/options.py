"""Options that several commands have."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def print_json(value: Any) -> None:
    """Print JSON, the only output on standard output with `--json`."""
    typer.echo(json.dumps(value, indent=2))

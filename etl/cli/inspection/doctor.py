"""`frontstage doctor`: is the machine fit, and do the pipelines move? One line each, and what to do where not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from etl import settings as configuration
from etl.cli.console import fitted
from etl.cli.options import Json
from etl.errors import FrontstageError
from etl.settings import Settings

if TYPE_CHECKING:
    from etl.pipeline.inspection.diagnosis import Diagnosis

_PATIENCE = timedelta(minutes=2)  # that a file of a stream may be unreadable before it is a finding
_MARK = {"well": "ok   ", "warning": "look ", "stuck": "STUCK"}


def doctor(
    deep: Annotated[bool, typer.Option(help="Also start a small Spark session.")] = True,
    machine: Annotated[bool, typer.Option(help="Look at the machine too, not only at pipelines.")] = True,
    as_json: Json = False,
) -> None:
    """Check what a start needs and whether pipelines move; say what is wrong and what to do."""
    from etl.stack.doctor import examine

    checks = [*(examine(deep=deep) if machine else ())]
    settings_hold = not checks or checks[0].ok
    found = [*_pipelines(configuration.load())] if settings_hold else []
    wrong = sum(not check.ok for check in checks) + sum(one.state == "stuck" for one in found)
    if as_json:
        result = {"machine": [asdict(one) for one in checks], "pipelines": [asdict(one) for one in found]}
        typer.echo(json.dumps(result, indent=2))
        raise typer.Exit(1 if wrong else 0)
    for check in checks:
        _print(f"{'ok   ' if check.ok else 'WRONG'} {check.name:<10} ", check.sentence)
    wide = max((len(one.pipeline) for one in found), default=0)
    for one in found:
        head = f"{_MARK[one.state]} {one.pipeline:<{wide}} "
        _print(head, one.what)
        if one.remedy:
            _print(" " * len(head) + "→ ", one.remedy)
    raise typer.Exit(1 if wrong else 0)


def _pipelines(own: Settings) -> Iterator[Diagnosis]:
    """Diagnoses of every pipeline, as far as the database is reachable."""
    from etl.adapters import ledger
    from etl.cli.database import existing_database
    from etl.contract.load import load_all
    from etl.pipeline.inspection.diagnosis import Diagnosis, diagnose, gather
    from etl.pipeline.prepare import places_of

    loaded = load_all(own.pipelines, own.var)
    for error in loaded.errors:
        yield Diagnosis(error.file, "stuck", str(error), "correct the file; `frontstage pipeline check` reads it again")
    try:
        with existing_database(own) as dsn:
            for pipeline in loaded.pipelines:
                with ledger.reading(dsn, pipeline.name) as book:
                    landing = places_of(own, pipeline).landing
                    yield from diagnose(gather(pipeline, landing, book, datetime.now(UTC)))
            yield from _streams(own, dsn)
    except FrontstageError as error:
        yield Diagnosis("pipelines", "warning", f"cannot be looked at: {error}")


def _streams(own: Settings, dsn: str) -> Iterator[Diagnosis]:
    """Streams of correlations with input that cannot be read."""
    from etl.adapters import ledger
    from etl.contract.correlations.correlation_files import load_streams
    from etl.pipeline.inspection.diagnosis import Diagnosis
    from etl.streams.inspection.shut_input import shut_input

    with ledger.reading(dsn, "correlations") as book:
        for one in shut_input(load_streams(own.streams, own.var).found, book):
            lately = one.since is not None and datetime.now(UTC) - one.since < _PATIENCE
            yield Diagnosis(f"stream {one.stream}", "warning" if lately else "stuck", one.what, one.remedy)


def _print(head: str, text: str) -> None:
    """One entry, its text indented under itself where it needs more than a line of a terminal."""
    typer.echo(fitted(text, head))

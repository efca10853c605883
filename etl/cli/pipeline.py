"""`frontstage pipeline …`: check pipeline files, list and show them, and write a first one from existing tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from etl import settings as configuration
from etl.cli.console import Console, fitted, print_error
from etl.cli.options import Json, print_json
from etl.settings import Settings

if TYPE_CHECKING:
    from etl.contract.drafting.draft import Table
    from etl.contract.errors import PipelineFileError
    from etl.contract.model import Pipeline

app = typer.Typer(help="Declare pipelines: one file per stream of events.", no_args_is_help=True)

Files = Annotated[
    list[Path] | None, typer.Argument(metavar="[FILE]...", help="Files; all that are declared when left out.")
]
_EXIT_WRONG = 78


@app.command()
def check(
    files: Files = None,
    masters: Annotated[bool, typer.Option("--masters", help="Also compare with the masters' own columns.")] = False,
    as_json: Json = False,
) -> None:
    """Say what is wrong with pipeline files, one sentence each; exit code 78 when anything is."""
    from etl.contract.load import conflicts, examine

    own = configuration.load()
    good: list[Pipeline] = []
    found: list[dict[str, Any]] = []
    paths = files or sorted(own.pipelines.glob("*.toml"))
    for path in paths:
        pipeline, errors = examine(path, own.var)
        if pipeline is not None:
            errors = conflicts(pipeline, [] if files else good)
        if pipeline is not None and masters and not errors:
            errors = _against_masters(own, pipeline)
        found.append({"file": str(path), "good": not errors, "errors": [str(error) for error in errors]})
        for error in () if as_json else errors:
            print_error(str(error))
        if pipeline is not None and not errors:
            good.append(pipeline)
            if not as_json:
                typer.echo(f"{path.name} is good")
    if as_json:
        print_json(found)
    if len(good) < len(paths):
        raise typer.Exit(_EXIT_WRONG)


@app.command("list")
def list_pipelines(as_json: Json = False) -> None:
    """List the pipelines that are declared; files with mistakes are named on standard error."""
    from etl.contract.load import load_all

    own = configuration.load()
    loaded = load_all(own.pipelines, own.var)
    if as_json:
        typer.echo(json.dumps([_summary(one) for one in loaded.pipelines], indent=2))
    else:
        columns = ["pipeline", "format", "schedule", "key", "masters", "mart"]
        rows = [[str(one) for one in _summary(pipeline).values()] for pipeline in loaded.pipelines]
        Console().table(f"Pipelines of {own.pipelines}", columns, rows)
    for error in loaded.errors:
        print_error(str(error))
    if loaded.errors:
        raise typer.Exit(_EXIT_WRONG)


@app.command()
def show(name: Annotated[str, typer.Argument(help="A pipeline's name.")], as_json: Json = False) -> None:
    """Show what a pipeline declares: fields, rules with their reasons, masters, measures, tables."""
    from etl.contract.dump import as_dict

    pipeline = _named(configuration.load(), name)
    typer.echo(
        json.dumps(as_dict(pipeline), indent=2, ensure_ascii=False)
        if as_json
        else "\n".join(map(fitted, _lines(pipeline)))
    )


@app.command()
def schema() -> None:
    """Print the JSON Schema of pipeline files; editors complete and check them with it."""
    from etl.contract.parsing.schema import schema_text

    typer.echo(schema_text(), nl=False)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The pipeline's name, such as visits.")],
    events: Annotated[Path, typer.Option(help="A file with events: .jsonl, .csv or .parquet.")],
    from_table: Annotated[
        list[str] | None,
        typer.Option(help="A master: schema.table or delta:path, with NAME= before it for another name. Repeatable."),
    ] = None,
    on: Annotated[
        list[str] | None, typer.Option(help="FIELD=MASTER.COLUMN where names do not tell what matches. Repeatable.")
    ] = None,
    key: Annotated[list[str] | None, typer.Option(help="A field of the event's key. Repeatable.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="File to write; NAME.toml among the pipelines when left out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a first pipeline file from a sample of events and real tables; it passes `check` as it is."""
    from etl.contract.drafting.draft import DraftRefused, draft
    from etl.contract.drafting.sample import read_sample
    from etl.contract.errors import PipelineFileError
    from etl.contract.load import load
    from etl.contract.words.dag_ids import pipeline_name

    own = configuration.load()
    if wrong := next(pipeline_name((), name), None):
        raise DraftRefused(wrong.sentence)
    target = output or own.own_pipelines / f"{name}.toml"
    if target.exists():
        raise DraftRefused(f"{target} exists already; remove it or give --output another name")
    tables = [*_tables(own, from_table or [])]
    text = draft(name, read_sample(events), tables, key=key or (), on=[_match(one) for one in on or []])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    try:
        drafted = load(target, own.var)
    except PipelineFileError as error:  # the file and its line are gone
        target.unlink()
        raise DraftRefused(f"no file is written, for it would not be good: {error.sentence}") from None
    except BaseException:
        target.unlink()
        raise
    if as_json:
        print_json({"pipeline": name, "file": str(target)})
        return
    typer.echo(f"{target} is written; read it, then run `frontstage pipeline check {target}`")
    typer.echo(f"Its events are files that appear in {drafted.stream.source.landing}")
    if any(master.store == "postgres" for master in drafted.masters):
        typer.echo("`frontstage master follow` once, and batches read what has changed in its masters, not all of them")


def _match(text: str) -> tuple[str, str, str]:
    from etl.contract.drafting.draft import DraftRefused

    field, equals, where = text.partition("=")
    master, dot, column = where.rpartition(".")
    if not (field and equals and master and dot and column):
        raise DraftRefused(f"--on {text!r} must be FIELD=MASTER.COLUMN, such as buyer=person.id")
    return field, master, column


def _tables(own: Settings, given: list[str]) -> Iterator[Table]:
    """The given tables, with their schemas from their stores."""
    from etl.adapters import postgres
    from etl.cli.database import migrated_database
    from etl.contract.drafting.draft import Table
    from etl.masters.tables import describe_delta, describe_postgres

    for text in given:
        alias, equals, place = text.rpartition("=")
        if place.startswith("delta:"):
            path = place.removeprefix("delta:")
            location = path if "://" in path else str(own.var / path)
            found = describe_delta(location)
            yield Table("delta", path, found.schema, found.key, alias if equals else None)
            continue
        table = place.removeprefix("postgres:")
        with migrated_database(own) as dsn, postgres.connect(dsn, autocommit=True) as connection:
            found = describe_postgres(connection, table)
        yield Table("postgres", table, found.schema, found.key, alias if equals else None)


def _against_masters(own: Settings, pipeline: Pipeline) -> tuple[PipelineFileError, ...]:
    from etl.contract.resolve import mistakes_against
    from etl.masters.tables import master_schemas

    with _database_of(own, pipeline) as dsn:
        return tuple(mistakes_against(pipeline, master_schemas(pipeline, dsn, own.var)))


@contextmanager
def _database_of(own: Settings, pipeline: Pipeline) -> Iterator[str | None]:
    """The database of a pipeline's masters; none is needed when all of them are in Delta."""
    from etl.cli.database import migrated_database

    if not any(master.store == "postgres" for master in pipeline.masters):
        yield None
        return
    with migrated_database(own) as dsn:
        yield dsn


def _named(own: Settings, name: str) -> Pipeline:
    from etl.contract.errors import unknown
    from etl.contract.load import load_all, mistake_of
    from etl.errors import SettingsError

    loaded = load_all(own.pipelines, own.var)
    found = {one.name: one for one in loaded.pipelines}
    if name in found:
        return found[name]
    wrong = mistake_of(name, loaded, own.pipelines)
    if wrong is not None:
        raise wrong
    raise SettingsError(unknown("a pipeline", name, found, "pipelines"))


def _summary(pipeline: Pipeline) -> dict[str, Any]:
    return {
        "name": pipeline.name,
        "format": pipeline.stream.source.format,
        "schedule": pipeline.schedule,
        "key": ", ".join(pipeline.stream.key),
        "masters": ", ".join(master.name for master in pipeline.masters),
        "mart": ", ".join(table.name for table in pipeline.mart),
    }


def _lines(pipeline: Pipeline) -> Iterator[str]:
    from etl.contract.dump import as_dict
    from etl.contract.words.types import declared_name

    stream = pipeline.stream
    place = stream.source.landing if stream.source.topic is None else f"topic {stream.source.topic.name}"
    yield f"{pipeline.name}: {stream.source.format} in {place}, {pipeline.schedule}"
    yield f"deadline {pipeline.deadline.total_seconds():g} s, grace {pipeline.grace.total_seconds() / 3600:g} h"
    yield "fields"
    for field in stream.fields:
        marks = ["key"] * (field.name in stream.key) + ["optional"] * field.nullable
        yield f"  {field.name:<24} {declared_name(field.type):<16} {', '.join(marks)}".rstrip()
    yield "rules"
    for rule in as_dict(pipeline)["rules"]:
        said = {key: value for key, value in rule.items() if key not in ("kind", "name") and value is not None}
        yield f"  {rule['name']:<32} {', '.join(f'{key} {value}' for key, value in said.items())}"
    for master in pipeline.masters:
        pairs = ", ".join(f"{field} = {column}" for field, column in master.on)
        need = "required" if master.required else "optional"
        yield f"master {master.name}: {master.store}:{master.table} on {pairs}, {need}, {master.history}"
    for name, sql in pipeline.measures.items():
        yield f"measure {name}: {sql}"
    for table in pipeline.mart:
        kind = f"aggregate by {', '.join(table.group_by)}" if table.is_aggregate else "rows"
        yield f"mart {table.name}: {kind}: {', '.join([*table.columns, *table.values])}"

"""`frontstage run`, `status`, `audit` and `maintain`: micro-batches and their state."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from etl import settings as configuration
from etl.cli.console import Console, fitted, printable
from etl.cli.database import existing_database, migrated_database
from etl.cli.options import Json, print_json
from etl.errors import TerminalError
from etl.settings import Settings

if TYPE_CHECKING:
    from etl.contract.model import Pipeline
    from etl.page.queries.overview import PipelineNow

Name = Annotated[str | None, typer.Argument(metavar="[PIPELINE]", help="A pipeline; may be left out if there is one.")]


def run(
    pipeline: Name = None,
    release: Annotated[int | None, typer.Option(min=1, help="Let this held batch pass, such as 12.")] = None,
    as_json: Json = False,
) -> None:
    """Run one micro-batch now, without Airflow."""
    from etl.spark.runner.client import step_runner

    own = configuration.load()
    name = chosen(own, pipeline)
    run_id = f"manual-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    with (
        Console(stderr=as_json) as console,
        migrated_database(own) as dsn,
        step_runner(own, lambda: dsn, console.say) as run_step,
    ):
        console.doing("ingest")
        result = run_step("ingest", name, run_id, release=release, progress=console.say)
        if result["batch"] is not None:
            try:
                console.doing("audit")
                run_step("audit", name, run_id, batch=result["batch"], progress=console.say)
                console.doing("publish")
                run_step("publish", name, run_id, batch=result["batch"], progress=console.say)
            finally:
                result = run_step("report", name, run_id, batch=result["batch"], progress=console.say)
                if as_json:  # also for a held batch
                    print_json(result)
        elif as_json:
            print_json(result)


def status(as_json: Json = False, batches: Annotated[int, typer.Option(min=1, help="Batches to list.")] = 10) -> None:
    """Show what runs, how every pipeline stands, where every event is, and the latest batches."""
    from etl.adapters import ledger, postgres
    from etl.page.queries.overview import overview
    from etl.stack.state import state

    own = configuration.load()
    running, batches_of = state(own), {}
    with existing_database(own) as dsn:
        with postgres.connect(dsn) as connection:
            found = overview(connection, declared(own), datetime.now(UTC))
        for one in found:
            with ledger.reading(dsn, one.name) as book:
                batches_of[one.name] = book.history(batches)
    if as_json:
        statuses = {
            one.name: {**one.as_json(), "batches": [_batch_json(record) for record in batches_of[one.name]]}
            for one in found
        }
        typer.echo(json.dumps({"services": running.services, "pipelines": statuses}, indent=2))
        return
    console = Console()
    console.table("Services", ["service", "state"], sorted(running.services.items()) or [("none", "not running")])
    for one in found:
        typer.echo("\n".join(fitted(printable(line)) for line in _standing(one)))
        if one.totals:
            _show(console, one.name, one.totals, batches_of[one.name])


def _standing(one: PipelineNow) -> Iterator[str]:
    """A pipeline's status in the page's words: one line, and a few more once it has run."""
    from etl.report.figures import duration, percent, span

    yield f"{one.name}: {one.standing[1]}"
    if one.stuck is not None:
        yield f"  → {one.stuck.remedy}"
    if one.last is None:
        return
    yield (
        f"  freshness {duration(one.last.fresh_p50_s)}, p95 {duration(one.last.fresh_p95_s)}, "
        f"deadline {span(one.deadline.total_seconds())}"
    )
    yield f"  {one.rate_per_s:,.2g} events per second over ten minutes; hit ratio {percent(one.last.hit_ratio)}"
    if one.audit is not None:
        failed = ", ".join(one.failed_expectations)
        yield f"  audit of batch {one.last.batch}: {'passed' if one.audit['success'] else f'failed ({failed})'}"
    for join in one.tactics:
        yield f"  {join.master}: {', '.join(join.tactics) or 'not joined'}; {join.why}"
    for heap in one.backlog:
        yield f"  {heap.events:,} wait {heap.why}, since {heap.since:%Y-%m-%d %H:%M} UTC"


def _show(console: Console, name: str, totals: Mapping[str, int], records: list[Any]) -> None:
    shown = ("lines", "fact", "quarantine", "quarantine_open", "duplicates", "backlog_open")
    console.table(f"{name}: every event is in one place", list(shown), [[totals[one] for one in shown]])
    columns = ["batch", "state", "lines", "accepted", "refused", "duplicates", "waiting", "s"]
    rows = [
        [
            str(r.batch), r.state, r.counts.lines, r.counts.accepted, r.counts.quarantined, r.counts.duplicates,
            r.counts.backlog_added, f"{sum(r.seconds.values()):.1f}",
        ]
        for r in records if r.decision is not None
    ]  # fmt: skip
    console.table(f"{name}: batches", columns, rows)
    added = {field: r.batch for r in records if r.decision is not None for field in r.counts.added_fields}
    if added:
        fields = ", ".join(f"{printable(field)} (last in batch {batch})" for field, batch in added.items())
        typer.echo(f"{name}: not declared, kept in extra: {fields}")


def _batch_json(record: Any) -> dict[str, Any]:
    counts = {} if record.decision is None else record.counts.as_json()
    return {"batch": record.batch, "state": record.state, "seconds": record.seconds, **counts}


def audit(pipeline: Name = None, as_json: Json = False) -> None:
    """Count every event in the raw files and in the tables, and say whether it adds up."""
    from etl.adapters import ledger
    from etl.pipeline.inspection import inventory
    from etl.pipeline.prepare import places_of

    own = configuration.load()
    wanted = [one for one in declared(own) if pipeline in (None, one.name)]
    if not wanted:
        chosen(own, pipeline)
    taken = []
    with Console() as console, existing_database(own) as dsn:
        for one in wanted:
            with ledger.reading(dsn, one.name) as book:
                if book.totals():
                    if not as_json:  # standard output is for the JSON alone
                        console.doing(f"counting {one.name}")
                    taken.append(inventory.take(one, places_of(own, one), book, dsn))
    if as_json:
        typer.echo(json.dumps([one.as_json() for one in taken], indent=2))
    for counted in () if as_json else taken:
        columns = ["raw_lines", "fact", "quarantine", "backlog_open", "duplicates"]
        console.table(counted.pipeline, columns, [[counted.as_json()[name] for name in columns]])
        for fault in counted.faults or ["it adds up"]:
            typer.echo(f"{counted.pipeline}: {fault}")
    if any(counted.faults for counted in taken):
        raise typer.Exit(1)


def maintain(
    pipeline: Name = None,
    days: Annotated[int, typer.Option(min=7, help="Days of history to keep.")] = 30,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: Json = False,
) -> None:
    """Compact tables and pages, remove what nobody needs, forget what is old: as the DAG `maintenance` does daily."""
    from etl.masters.upkeep.maintenance import care
    from etl.pipeline.upkeep.retention import remove_run_logs
    from etl.spark.runner.client import maintain as ask
    from etl.spark.runner.client import maintain_correlations

    own = configuration.load()
    names = [chosen(own, pipeline)] if pipeline else [one.name for one in declared(own)]
    with Console(stderr=as_json) as console, migrated_database(own) as dsn:
        done = [ask(own, lambda: dsn, name, days, dry_run=dry_run, progress=console.say) for name in names]
        streams = (
            {} if pipeline else maintain_correlations(own, lambda: dsn, days, dry_run=dry_run, progress=console.say)
        )
        pages = [] if dry_run or pipeline else care(own, dsn, console.say)
        logs = remove_run_logs(own.run_logs, datetime.now(UTC) - timedelta(days=days), dry_run=dry_run)
        console.say(f"logs of old runs: {logs.bytes:,} bytes")
    if as_json:
        typer.echo(
            json.dumps({"pipelines": done, "correlations": streams, "masters": pages, "logs": asdict(logs)}, indent=2)
        )


def declared(own: Settings) -> tuple[Pipeline, ...]:
    """The pipelines whose files are valid."""
    from etl.contract.load import load_all

    return load_all(own.pipelines, own.var).pipelines


def chosen(own: Settings, name: str | None) -> str:
    """The named pipeline, or the only one that has run or is declared."""
    from etl.pipeline.prepare import Preparer

    if name is not None:
        return Preparer(own, "").declared(name).name
    names = [one.name for one in declared(own)]
    used = [one for one in names if (own.warehouse / one).is_dir()] or names
    if len(used) != 1:
        raise TerminalError(f"which pipeline? name one of {', '.join(used) or 'none (no file declares one)'}")
    return used[0]

"""The `frontstage` command: thin wiring from words to the parts that do the work.

    stack       up, down                        master      publish, refresh, compact, status
    batches     run, status, audit, maintain    pipeline    check, list, show, new
    console, database, options   what commands share

    inspection/    doctor, explain, explain_event; report: show, acknowledge, digest; backlog: list, show, drain
    review/        quarantine: list, show, release, reject; held: list, release, reject; reprocess
    correlations/  correlate: run, status, explain, history, list, check, report, reset
                   query: create, list, show, explain, rows, delete, resume

`generate`, `demo` and `demo-correlations` are commands of `etl.samples`, mounted here.

Exit codes: 0 done, 1 something is wrong with the data or the work, 2 or 64 a bad option, 69 something is missing or
taken, 75 try again later, 78 a wrong setting, 130 interrupted.
"""

from __future__ import annotations

from typing import NoReturn

import typer

from etl.cli import batches, master, pipeline, stack
from etl.cli.console import print_error
from etl.cli.correlations import correlate, query
from etl.cli.inspection import backlog, doctor, explain, explain_event, report
from etl.cli.review import held, quarantine, reprocess
from etl.errors import FrontstageError
from etl.logs import structured
from etl.samples import commands as samples

app = typer.Typer(
    name="frontstage",
    help="Near-real-time warehouse ETL: enrich streams of events, check them, load them, and lose none.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(samples.app, name="generate")
app.add_typer(master.app, name="master")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(correlate.app, name="correlate")
app.add_typer(query.app, name="query")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(backlog.app, name="backlog")
app.add_typer(held.app, name="held")
app.add_typer(report.app, name="report")
for command in (
    samples.demo,
    samples.demo_correlations,
    stack.up,
    stack.down,
    batches.run,
    batches.status,
    batches.audit,
    batches.maintain,
    reprocess.reprocess,
    doctor.doctor,
    explain.explain,
    explain_event.explain_event,
):
    app.command()(command)


def main() -> NoReturn:
    """Run the command; a user's mistake ends in one sentence, never in a stack trace."""
    structured()
    try:
        app()
    except FrontstageError as error:
        print_error(str(error))
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        print_error("interrupted; everything that was started is stopped")
        raise SystemExit(130) from None
    raise SystemExit(0)

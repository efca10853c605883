"""`python -m bench.pipeline`: whole micro-batches of three contenders, in at most 25 minutes, into pipeline.json."""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark

from bench.measured import RESULTS, exit_code, keep, machine, progress
from bench.peers.jars import jdbc_jar
from bench.pipeline import before_tree, plots, through_airflow
from bench.pipeline.orders import Orders
from bench.pipeline.plan import CONTENDERS, HISTORY, MASTERS, MORE_MASTERS, SIZES, Site, Task, sites_of
from bench.pipeline.results import NOTES, Row, aims, table
from etl import settings as configuration
from etl.errors import FrontstageError, TerminalError
from etl.settings import PROJECT, Settings
from etl.stack.credentials import credentials
from etl.stack.postgres import create_databases, dsn, embedded_postgres

MINUTES = 25.0
_SHARES = {"before": 0.2, "plain": 0.2, "ours": 0.36}
"""Of the minutes, by contender; the rest is for Airflow, starting and stopping."""


class ContenderFailed(TerminalError):
    """The process of a contender ended with an error."""

    def __init__(self, name: str, reason: str, log: Path) -> None:
        super().__init__(name, reason, log)
        self.name, self.reason, self.log = name, reason, log

    def __str__(self) -> str:
        # The sentence goes into the result, which is committed: no folder of this machine in it.
        log = self.log.relative_to(PROJECT) if self.log.is_relative_to(PROJECT) else self.log.name
        return f"contender {self.name} failed: {self.reason} (see {log})"


@dataclass(frozen=True, slots=True)
class Run:
    """The options, and where everything is kept."""

    contenders: tuple[str, ...]
    sizes: tuple[int, ...]
    more_masters: int
    history: int
    minutes: float
    with_airflow: bool
    settings: Settings = field(repr=False)
    began: float = field(default_factory=time.monotonic)

    @property
    def folder(self) -> Path:
        return self.settings.var / "pipeline"

    def sites(self, contender: str) -> tuple[Site, ...]:
        return sites_of(contender, self.sizes, self.more_masters or None, self.history)

    def left_s(self) -> float:
        """Seconds until the benchmark has to end."""
        return self.minutes * 60 - (time.monotonic() - self.began)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.pipeline", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--batches", type=int, nargs="+", default=list(SIZES), help="orders per batch")
    parser.add_argument("--more-masters", type=int, default=MORE_MASTERS, help="rows of the larger master (0: none)")
    parser.add_argument("--history", type=int, default=HISTORY, help="batches on one warehouse in a row (0: none)")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="what all of it may take")
    parser.add_argument("--without-airflow", action="store_true", help="leave out the runs through Airflow")
    parser.add_argument("--output", type=Path, default=RESULTS / "pipeline.json")
    return parser.parse_args(arguments)


def run_of(chosen: argparse.Namespace, settings: Settings) -> Run:
    """The options, with an embedded Postgres of their own that listens on some free port."""
    for name in ("batches", "minutes"):
        value = getattr(chosen, name)
        if min(value if isinstance(value, list) else [value]) <= 0:
            raise TerminalError(f"--{name} {value} is not allowed; give numbers above 0")
    own = {"var": settings.var / "bench", "postgres_dsn": None, "postgres_tcp_port": _free_port()}
    return Run(
        contenders=tuple(name for name in CONTENDERS if name in chosen.contenders),
        sizes=tuple(sorted(set(chosen.batches))),
        more_masters=chosen.more_masters,
        history=chosen.history,
        minutes=chosen.minutes,
        with_airflow=not chosen.without_airflow,
        settings=settings.model_copy(update=own),
    )


def make_orders(run: Run) -> None:
    """All files that some contender will read, before anything is timed."""
    wanted: dict[tuple[int, int], int] = {}
    for site in (site for name in run.contenders for site in run.sites(name)):
        for cell in site.cells:
            at = (site.masters, cell.size)
            wanted[at] = max(wanted.get(at, 0), cell.batches)
    if run.with_airflow:
        for size, count in through_airflow.needed().items():
            wanted[MASTERS, size] = max(wanted.get((MASTERS, size), 0), count)
    for (masters, size), count in sorted(wanted.items()):
        made = Orders(run.folder / "orders", masters).make(size, range(count))
        if made:
            progress(f"made {made} batches of {size:,} orders over {masters:,} customers")


@contextmanager
def task_of(run: Run, contender: str) -> Iterator[Task]:
    """Postgres running with a fresh database per site, and everything the contender has to know."""
    settings, sites = run.settings, run.sites(contender)
    databases = {site.name: f"bench_{contender}_{site.name}".replace("-", "_") for site in sites}
    with embedded_postgres(settings) as maintenance:
        _drop(maintenance, list(databases.values()))
        create_databases(settings, list(databases.values()))
        tcp = f"jdbc:postgresql://127.0.0.1:{settings.postgres_tcp_port}/"
        yield Task(
            contender=contender,
            folder=str(run.folder / contender),
            orders=str(run.folder / "orders"),
            jars=str(settings.jars),
            sites=sites,
            dsns={site: dsn(settings, name) for site, name in databases.items()},
            jdbc={
                **{site: tcp + name for site, name in databases.items()},
                "user": "postgres",
                "password": credentials(settings).postgres_password,
                "jar": str(jdbc_jar(settings.var / "jars")),
            },
            budget_s=min(_SHARES[contender] * run.minutes * 60, run.left_s()),
        )


def _drop(maintenance: str, databases: list[str]) -> None:
    from etl.adapters import postgres

    with postgres.connect(maintenance, autocommit=True) as connection, connection.cursor() as cursor:
        for name in databases:
            cursor.execute(f'drop database if exists "{name}" with (force)')


def run_contender(run: Run, contender: str) -> dict[str, Any]:
    """One contender alone in a process of its own, from its task to its rows."""
    folder = run.folder / contender
    folder.mkdir(parents=True, exist_ok=True)
    given, result, log = folder / "task.json", folder / "result.json", folder / "log.txt"
    result.unlink(missing_ok=True)
    tree = before_tree.ensure(run.settings.var / "before") if contender == "before" else None
    command = [sys.executable, "-P", "-m", "bench.pipeline.drive", str(given), str(result)]
    with task_of(run, contender) as task, log.open("w") as errors:
        given.touch(mode=0o600)
        given.write_text(task.to_json())
        try:
            ended = subprocess.run(command, cwd=folder, env=before_tree.environment(tree), stderr=errors, check=False)
        finally:
            given.unlink()
    if ended.returncode or not result.exists():
        raise ContenderFailed(contender, _last_line(log), log)
    content: dict[str, Any] = json.loads(result.read_text())
    return content


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def measure(run: Run, output: Path) -> dict[str, Any]:
    """Everything in turn. A contender that fails is told in the result, and what needs it is not met."""
    rows: list[Row] = []
    history: list[Row] = []
    missing: dict[str, str] = {}
    freshness: list[Row] = []
    partial = output.with_suffix(".partial.json")
    for name in run.contenders:
        progress(f"{name} begins; {run.left_s() / 60:.1f} of {run.minutes:g} minutes are left")
        try:
            outcome = run_contender(run, name)
        except FrontstageError as error:
            missing[name] = str(error)
            progress(f"{name} is not measured: {error}")
            continue
        rows, history = rows + outcome["rows"], history + outcome["history"]
        missing |= {f"{name}: {what}": "the time was up" for what in outcome["left_out"]}
        keep(result_of(rows, history, freshness, missing), partial)
    if run.with_airflow:
        try:
            freshness = through_airflow.measure(run.settings, run.folder / "orders", run.left_s())
        except FrontstageError as error:
            missing["through Airflow"] = str(error)
            progress(f"Airflow is not measured: {error}")
    partial.unlink(missing_ok=True)
    return result_of(rows, history, freshness, missing)


def result_of(rows: list[Row], history: list[Row], freshness: list[Row], missing: dict[str, str]) -> dict[str, Any]:
    """What the file holds."""
    result = {
        "machine": {**machine(), "pyspark": pyspark.__version__},
        "notes": NOTES,
        "rows": rows,
        "history": history,
        "freshness": freshness,
        "not_measured": missing,
    }
    return {**result, "aims": aims(result)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    chosen = parsed()
    try:
        run = run_of(chosen, configuration.load())
        make_orders(run)
        result = measure(run, chosen.output)
    except FrontstageError as error:
        sys.exit(f"bench.pipeline: {error}")
    print(table(result))
    plots.draw(result, chosen.output.parent)
    progress(f"kept in {keep(result, chosen.output).name} after {run.minutes - run.left_s() / 60:.1f} minutes")
    return exit_code(result)


if __name__ == "__main__":
    sys.exit(main())

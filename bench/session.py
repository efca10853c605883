"""`make bench-session`: what settings of the JVM and of Spark's planner cost a micro-batch (ADR 16).

    variant ──► a process with a JVM and a warehouse of its own ──► warm-up, then batches of every size in turn

Every variant runs the same batches of orders through the whole pipeline, audit and report included. Wall time tells
what a user waits for; CPU time of driver, JVM and workers tells what compilers and collectors take from others.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.measured import AIM_HEAD, RESULTS, aim, aim_cells, aim_line, exit_code, keep, machine, median, progress
from bench.pipeline import __main__ as pipeline_run
from bench.pipeline.before_tree import environment
from bench.pipeline.orders import Orders
from bench.pipeline.plan import MASTERS, Task
from etl import settings as configuration
from etl.errors import FrontstageError, TerminalError

WARM_UP = {100: 3, 50_000: 2}
TIMED = {100: 20, 50_000: 8, 500_000: 3}
NEAR = 1.1
"""How close to the best variant the settings of the pipeline have to be."""
_AIMED = (100, 50_000)


@dataclass(frozen=True, slots=True)
class Variant:
    """What is different from the pipeline's own session."""

    name: str
    spark: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


_WHOLE_STAGE = {"spark.sql.codegen.wholeStage": "true"}
_ADAPTIVE = {"spark.sql.adaptive.enabled": "true"}
_FULL = {"FRONTSTAGE_SPARK_JIT": "full"}
OWN = Variant("ours")
VARIANTS = (
    OWN,
    Variant("whole-stage code", spark=_WHOLE_STAGE),
    Variant("adaptive planning", spark=_ADAPTIVE),
    Variant("both compilers", environment=_FULL),
    Variant("code cache of 512 MiB", environment={"JDK_JAVA_OPTIONS": "-XX:ReservedCodeCacheSize=512m"}),
    Variant("as Spark comes", spark={**_WHOLE_STAGE, **_ADAPTIVE}, environment=_FULL),
)
NOTES = {
    "ours": "the session of the pipeline: no whole-stage code, no adaptive planning, the JVM's first compiler only",
    "both compilers": "FRONTSTAGE_SPARK_JIT=full",
    "as Spark comes": "whole-stage code, adaptive planning, both compilers",
    "batches": "whole micro-batches in one process, report included; the first of 100 and of 50,000 orders are warm-up",
    "seconds": "median of the timed batches; CPU: mean, of driver, JVM and Python workers together",
}


def named(name: str) -> Variant:
    """A variant by its name."""
    for variant in VARIANTS:
        if variant.name == name:
            return variant
    raise TerminalError(f"variant {name!r} is unknown; allowed are {', '.join(one.name for one in VARIANTS)}")


def drive(task: Task, variant: Variant) -> list[dict[str, Any]]:
    """All batches of one variant; the JVM has its options from the environment."""
    from bench.pipeline import ours

    orders = Orders(Path(task.orders), MASTERS)
    with ours.session(task) as session:
        for key, value in variant.spark.items():
            session.spark.conf.set(key, value)
        warehouse = session.open(task.sites[0])
        numbers = dict.fromkeys(TIMED, 0)

        def run(size: int) -> tuple[float, float]:
            warehouse.land(orders.batch(size, numbers[size]).files)
            numbers[size] += 1
            began, cpu = time.perf_counter(), cpu_seconds()
            warehouse.run(checkpoint=True)
            return time.perf_counter() - began, cpu_seconds() - cpu

        for size, count in WARM_UP.items():
            for _ in range(count):
                run(size)
        return [row_of(variant, size, [run(size) for _ in range(count)]) for size, count in TIMED.items()]


def row_of(variant: Variant, size: int, runs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """One line of the result."""
    seconds, cpu = zip(*runs, strict=True)
    progress(f"{variant.name}: {size:>7,} orders {median(seconds):8.2f} s, CPU {sum(cpu) / len(cpu):8.2f} s")
    return {
        "variant": variant.name,
        "batch": size,
        "seconds": median(seconds),
        "cpu_seconds": round(sum(cpu) / len(cpu), 4),
        "seconds_of_batches": [round(one, 4) for one in seconds],
    }


def cpu_seconds() -> float:
    """What this process and all below it have used: the driver, its JVM, the JVM's Python workers."""
    used, own = 0.0, psutil.Process()
    for process in (own, *own.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        used += times.user + times.system + times.children_user + times.children_system
    return used


def aims(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The pipeline's settings against the best of all, by wall time."""
    found = []
    for size in _AIMED:
        took = {row["variant"]: row["seconds"] for row in rows if row["batch"] == size}
        ratio = round(took[OWN.name] / min(took.values()), 3) if OWN.name in took else None
        found.append(aim(f"ours / the best variant, {size:,} orders", ratio, most=NEAR))
    return found


def in_own_process(run: pipeline_run.Run, variant: Variant) -> list[dict[str, Any]]:
    """A variant with a JVM to itself."""
    folder = run.folder / "ours"
    folder.mkdir(parents=True, exist_ok=True)
    given, result, log = folder / "task.json", folder / "session.json", folder / "log.txt"
    result.unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "bench.session", "--drive", variant.name, str(given), str(result)]
    with pipeline_run.task_of(run, "ours") as task, log.open("w") as errors:
        given.touch(mode=0o600)
        given.write_text(json.dumps(asdict(task)))
        try:
            ended = subprocess.run(
                command, cwd=folder, env={**environment(), **variant.environment}, stderr=errors, check=False
            )
        finally:
            given.unlink()
    if ended.returncode or not result.exists():
        raise TerminalError(f"variant {variant.name} failed; {log.name} in {folder.name} says why")
    rows: list[dict[str, Any]] = json.loads(result.read_text())["rows"]
    return rows


def run_of(settings: configuration.Settings) -> pipeline_run.Run:
    """Orders and a Postgres of its own, as `bench.pipeline` has them."""
    options = ["--contenders", "ours", "--more-masters", "0", "--history", "0", "--without-airflow"]
    return pipeline_run.run_of(pipeline_run.parsed([*options, "--batches", *map(str, TIMED)]), settings)


def make_orders(run: pipeline_run.Run) -> None:
    """All files that a variant reads, before anything is timed."""
    for size, count in TIMED.items():
        Orders(run.folder / "orders", MASTERS).make(size, range(WARM_UP.get(size, 0) + count))


def sections(result: Mapping[str, Any], table: Callable[..., str]) -> str:
    """The section of the performance page."""
    rows = {(row["variant"], row["batch"]): row for row in result["rows"]}
    sizes = sorted({size for _, size in rows})
    head = ("", *(f"{size:,} orders: s, CPU s" for size in sizes))

    def line(name: str) -> tuple[str, ...]:
        known = [rows.get((name, size)) for size in sizes]
        return (name, *("" if row is None else f"{row['seconds']:.2f}, {row['cpu_seconds']:.2f}" for row in known))

    return "\n\n".join(
        [
            "\n".join(f"- *{name}*: {note}" for name, note in result["notes"].items()),
            table(head, [line(name) for name in dict.fromkeys(name for name, _ in rows)]),
            "What was aimed at:",
            table(AIM_HEAD, aim_cells(result)),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.session", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--variants", nargs="+", choices=[one.name for one in VARIANTS], help="all unless given")
    parser.add_argument("--output", type=Path, default=RESULTS / "session.json")
    parser.add_argument("--drive", nargs=3, metavar=("VARIANT", "TASK", "RESULT"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.drive:
        name, given, result = chosen.drive
        keep({"rows": drive(Task.from_json(Path(given).read_text()), named(name))}, Path(result))
        return 0
    rows: list[dict[str, Any]] = []
    try:
        run = run_of(configuration.load())
        make_orders(run)
        for variant in VARIANTS:
            if chosen.variants is None or variant.name in chosen.variants:
                rows += in_own_process(run, variant)
    except FrontstageError as error:
        sys.exit(f"bench.session: {error}")
    found = {"machine": machine(), "notes": NOTES, "rows": rows, "aims": aims(rows)}
    print("\n".join(map(aim_line, found["aims"])))
    progress(f"kept in {keep(found, chosen.output).name}")
    return exit_code(found)


if __name__ == "__main__":
    sys.exit(main())

"""A program with one Spark for many cases: at a point of a batch it kills its Python workers, or waits to be let go on.

    test ── one line of JSON ──▶ this program ──▶ one micro-batch, or the resident driver's socket for a site
         ◀── how it ended ──

Starting Spark takes longer than a batch, so one session serves all cases in which the JVM stays alive.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from etl.settings import PROJECT
from etl.stack.supervision.processes import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.site import Site

WHILE_TASKS_RUN = "while tasks run"
_BOUND_S = 120.0


@dataclass
class SparkDriver:
    """The program, as a test sees it."""

    process: subprocess.Popen[str]

    def run(self, home: Path, dsn: str, point: str) -> str:
        """One micro-batch whose Python workers are killed at a point; gives what was raised, or nothing."""
        return self._ask({"do": "run", "home": str(home), "dsn": dsn, "point": point})

    def serve(self, home: Path, dsn: str, point: str) -> None:
        """Listen for steps of a site. A step that reaches the point makes `home/reached` and waits for `home/go`."""
        assert self._ask({"do": "serve", "home": str(home), "dsn": dsn, "point": point}) == ""

    def end(self) -> None:
        """Listen no longer."""
        assert self._ask({"do": "end"}) == ""

    def _ask(self, order: dict[str, Any]) -> str:
        assert self.process.stdin is not None, "it is a pipe"
        assert self.process.stdout is not None, "it is a pipe"
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return str(json.loads(self.process.stdout.readline())["error"])


@contextmanager
def spark_driver() -> Iterator[SparkDriver]:
    """The program, for as long as the block lasts."""
    command = [sys.executable, "-m", "tests.faults.spark_driver"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as process:
        yield SparkDriver(process)
        assert process.stdin is not None, "it is a pipe"
        process.stdin.close()


def workers() -> list[psutil.Process]:
    """Spark's Python processes below this one."""
    java = [process for process in psutil.Process().children(recursive=True) if "java" in process.name()]
    return [process for one in java for process in one.children(recursive=True) if "python" in process.name()]


def kill_workers() -> int:
    """Kill what there is now; gives how many."""
    found = workers()
    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return len(found)


def start_workers(spark: SparkSession) -> None:
    spark.range(0, 4, 1, 2).mapInArrow(_same, "id long").collect()


def _same(batches: Any) -> Any:
    yield from batches


def _site(order: dict[str, Any], spark: SparkSession, reached: Callable[[str], None]) -> Site:
    from etl.spark.executor import SparkExecutor
    from tests.faults.world import site_under

    site = site_under(Path(order["home"]), order["dsn"])
    return replace(site, steps=replace(site.steps, executor=SparkExecutor(spark), checkpoint=reached))


def _run(order: dict[str, Any], spark: SparkSession) -> None:
    start_workers(spark)

    def reached(name: str) -> None:
        if name == order["point"]:
            kill_workers()
        elif name == "after input is fixed" and order["point"] == WHILE_TASKS_RUN:
            threading.Thread(target=_kill_once_busy, daemon=True).start()

    site = _site(order, spark, reached)
    try:
        batch = site.run()
        if batch is not None:
            site.step("report", batch)
    finally:
        site.close()


def _kill_once_busy() -> None:
    """Kill the workers when one of them computes."""
    before = {process.pid: process.cpu_times().user for process in workers()}
    wait_until(lambda: any(one.cpu_times().user > before.get(one.pid, 0.0) for one in workers()), 30, every_s=0.005)
    kill_workers()


@contextmanager
def _serving(order: dict[str, Any], spark: SparkSession) -> Iterator[None]:
    import uvicorn

    from etl.spark.runner.client import answers
    from etl.spark.runner.service import app, listening

    home = Path(order["home"])

    def reached(name: str) -> None:
        if name == order["point"] and not (home / "reached").exists():
            (home / "reached").touch()
            wait_until((home / "go").exists, _BOUND_S)

    site = _site(order, spark, reached)
    with listening(site.settings.runner_socket) as socket:
        server = uvicorn.Server(uvicorn.Config(app(spark, site.steps), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        assert wait_until(lambda: answers(site.settings.runner_socket), _BOUND_S)
        yield
        server.should_exit = True
        thread.join()
        site.close()


def main() -> None:
    """Start Spark in a folder of its own, then serve."""
    import tempfile

    from etl.settings import load
    from etl.spark.session import spark_session
    from tests.faults.world import steady

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints, prints elsewhere
    steady()
    with tempfile.TemporaryDirectory(prefix="frontstage-spark-") as home:
        own = load(home=Path(home), jars=PROJECT / "var" / "jars")
        with spark_session(own) as spark, ExitStack() as served:
            for line in sys.stdin:
                order = json.loads(line)
                error = ""
                try:
                    if order["do"] == "run":
                        _run(order, spark)
                    elif order["do"] == "serve":
                        served.enter_context(_serving(order, spark))
                    else:
                        served.close()
                except Exception as raised:
                    error = f"{type(raised).__name__}: {raised}"
                print(json.dumps({"error": error}), file=answers, flush=True)


if __name__ == "__main__":
    main()

"""`python -m bench.biclique.peers NAME`: one contender in this process, its measures as the last line of JSON."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from pathlib import Path

from bench.biclique.peers.contender import Contender, Measured, measure
from bench.biclique.peers.data import KINDS, Kind, Plan, make
from bench.biclique.workload import FOLDER

CONTENDERS = {
    "duckdb": ("native", "DuckDB"), "spark-join": ("spark_join", "SparkJoin"),
    "spark-join-v4": ("spark_join", "SparkJoinV4"), "spark-window": ("spark_window", "SparkWindow"),
    "ours": ("ours", "Ours"),
}  # fmt: skip


def run(name: str, kind: Kind, plan: Plan, bound_s: float = 600.0, folder: Path = FOLDER / "peers") -> Measured:
    """A contender from an empty window to its last batch."""
    steps = make(plan, folder)
    module, attribute = CONTENDERS[name]
    start: Callable[[Kind, Path], Contender] = getattr(import_module(f"bench.biclique.peers.{module}"), attribute)
    home = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder))
    try:
        with closing(start(kind, home)) as contender:
            return measure(name, contender, steps, bound_s)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.biclique.peers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=CONTENDERS)
    parser.add_argument("--condition", choices=KINDS, default="equality")
    parser.add_argument("--stored", type=int, default=1_000_000, help="tuples in the window, of both streams")
    parser.add_argument("--batch", type=int, default=100_000, help="tuples of a batch, of both streams")
    parser.add_argument("--batches", type=int, default=5, help="timed batches")
    parser.add_argument("--bound", type=float, default=600.0, help="seconds after which no further batch is begun")
    given = parser.parse_args(arguments)
    plan = Plan(given.stored, given.batch, given.batches)
    print(json.dumps(run(given.name, given.condition, plan, given.bound).as_json()), flush=True)


if __name__ == "__main__":
    main()

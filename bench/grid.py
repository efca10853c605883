"""`auto` against every single tactic, cell by cell: skew x batch size x store x warm or cold.

    cell      one budget (a tenth of R), one store, one kind of batches
    joins     auto, cinlj, chybridjoin, cmeshjoin, each kept from batch to batch as a pipeline keeps it
    rounds    the same fresh batch for all of them; who goes first changes, so noise hits all alike; after some
              rounds only those near the best go on, until the clock has seen enough
    result    median seconds, and auto over the best single tactic: round by round, on the same batch within the same
              seconds, and of these ratios the median, for a machine is slower in one minute than in the next

The first batches are apart: one large batch fills the front stages, two of the cell's own size let `auto` see what
things cost. Cold: all cached pages of R are dropped before every single run (verified with mincore). Postgres has
buffers of its own that cannot be dropped while it runs, so it is measured warm only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from deltalake import WriterProperties, write_deltalake

from bench.data import KEY, DataSet, Draw, chunks, customers
from bench.measured import RESULTS, keep, machine, median, progress
from bench.page_cache import PageCache, bytes_read
from etl import settings as configuration
from etl.enrich.batch import build, join_batch
from etl.enrich.join import SemiStreamJoin
from etl.enrich.planning.auto import AutoTactic
from etl.errors import FrontstageError
from etl.masters.delta.reader import pin_delta
from etl.masters.pages.runs.writer import data_file
from etl.masters.pages.store import PageStore
from etl.masters.postgres.reader import exported_snapshot
from etl.settings import Settings
from etl.stack.postgres import embedded_postgres

STORES = ("pages", "delta", "postgres")
SINGLE = ("cinlj", "chybridjoin", "cmeshjoin")
NAMES = ("auto", *SINGLE)
WITHIN = 1.15
_HISTORY = 200_000
_GROUP_ROWS = 16_384
_WARMUPS = 2
_ENOUGH_S = 4.0  # of timed runs per join; short ones are repeated until then
_LEAST_ROUNDS, _MOST_ROUNDS = 15, 40
_HOPELESS = 2.0  # times the best: after the first rounds, no more of those
State = Literal["warm", "cold"]
Seconds = dict[str, float]  # by join


@dataclass(frozen=True, slots=True)
class Store:
    """A master behind its three ports, and how to make it cold."""

    name: str
    ports: Any
    drop: Callable[[], None] | None = None

    @property
    def states(self) -> tuple[State, ...]:
        return ("warm",) if self.drop is None else ("warm", "cold")


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of batches on one store."""

    data: DataSet
    store: Store
    zipf: float
    batch: int
    state: State
    repeats: int
    budget_bytes: int

    def keys(self, number: int, size: int | None = None) -> pa.Array:
        return pa.array(self.data.keys(Draw(size or self.batch, self.zipf, number)))


@contextmanager
def pages(data: DataSet) -> Iterator[Store]:
    """R as mapped pages, read ahead by the kernel as the pipeline lets it."""
    store = data.publish()
    with PageStore(store.root).open() as view:
        cache = PageCache([data_file(store.runs, run.entry.name) for run in view.runs])
        try:
            yield Store("pages", view, lambda: _drop_cached(cache))
        finally:
            cache.close()


@contextmanager
def in_postgres(data: DataSet, settings: Settings) -> Iterator[Store]:
    """R in Postgres, read directly inside one snapshot."""
    own = settings.model_copy(update={"var": data.root, "postgres_dsn": None, "postgres_tcp_port": None})
    with embedded_postgres(own) as dsn:
        data.load(dsn)
        with exported_snapshot(dsn) as snapshot:
            pinned = snapshot.with_fences(snapshot.pin(data.table, [KEY]))
            with pinned.open() as ports:
                yield Store("postgres", ports)


@contextmanager
def in_delta(data: DataSet) -> Iterator[Store]:
    """R as a Delta table in key order, row groups of a size that suits lookups; read directly at one version."""
    path = data.folder / "delta-in-key-order"
    if not (path / "_delta_log").is_dir():
        progress(f"writing {data.rows:,} rows to Delta")
        rows = pa.RecordBatchReader.from_batches(customers(np.arange(1)).schema, chunks(data.rows))
        aside = path.with_suffix(".new")
        shutil.rmtree(aside, ignore_errors=True)
        write_deltalake(aside, rows, writer_properties=WriterProperties(max_row_group_size=_GROUP_ROWS))
        aside.rename(path)
    with pin_delta(path, [KEY]).open() as ports:
        cache = PageCache(sorted(path.glob("*.parquet")))
        try:
            yield Store("delta", ports, lambda: _drop_cached(cache))
        finally:
            cache.close()


def _drop_cached(cache: PageCache) -> None:
    """Drops what the kernel has cached, and says so when it did not let go."""
    stayed = cache.drop()
    if stayed > cache.pages // 100:
        progress(f"  {stayed} of {cache.pages} pages could not be dropped: somebody else has them mapped")


def measure(cell: Cell) -> dict[str, Any]:
    """One cell: all four joins on the same batches."""
    budget, ports = cell.budget_bytes, cell.store.ports
    began = time.perf_counter()
    auto = build("auto", lookup=ports, scan=ports, index=ports, budget_bytes=budget, clock=time.perf_counter)
    trial = time.perf_counter() - began
    joins = {name: build(name, lookup=ports, scan=ports, index=ports, budget_bytes=budget) for name in SINGLE}
    joins = {"auto": auto, **joins}
    for number, size in enumerate([_HISTORY, *[cell.batch] * _WARMUPS]):
        for join in joins.values():
            _one(cell, join, cell.keys(1000 + number, min(size, cell.data.rows)))
    return {**_rounds(cell, joins), "auto_trial_seconds": round(trial, 4)}


def _rounds(cell: Cell, joins: dict[str, SemiStreamJoin]) -> dict[str, Any]:
    rounds: list[Seconds] = []
    before, chosen = bytes_read(), Counter[str]()
    for number in range(_MOST_ROUNDS):
        near = list(NAMES) if number < cell.repeats else _near(rounds)
        if not near:
            break
        keys, first = cell.keys(number), number % len(near)
        rounds.append({name: _one(cell, joins[name], keys) for name in (*near[first:], *near[:first])})
        chosen[_choice(joins["auto"])] += 1
    return summary(cell, rounds, dict(chosen), bytes_read() - before)


def _near(rounds: Sequence[Seconds]) -> list[str]:
    """Those worth another round: `auto` and who is near the best; nobody once they have run long enough."""
    medians = _medians(rounds)
    best = min(medians.values())
    near = [name for name in NAMES if name == "auto" or medians[name] <= _HOPELESS * best]
    took = {name: [seconds[name] for seconds in rounds if name in seconds] for name in near}
    enough = all(sum(runs) >= _ENOUGH_S and len(runs) >= _LEAST_ROUNDS for runs in took.values())
    return [] if enough else near


def _medians(rounds: Sequence[Seconds]) -> Seconds:
    return {name: median([seconds[name] for seconds in rounds if name in seconds]) for name in NAMES}


def _choice(join: SemiStreamJoin) -> str:
    choice = join.tactic.choice if isinstance(join.tactic, AutoTactic) else None
    return "nothing: the front stage knew all" if choice is None else choice.name


def _one(cell: Cell, join: SemiStreamJoin, keys: pa.Array) -> float:
    if cell.state == "cold" and cell.store.drop is not None:
        cell.store.drop()
    began = time.perf_counter()
    result = join_batch(join, keys)
    seconds = time.perf_counter() - began
    assert np.all(result.position >= 0), "every order has its master row"
    return seconds


def summary(cell: Cell, rounds: Sequence[Seconds], chosen: dict[str, int], read: int) -> dict[str, Any]:
    """A cell as the result file has it."""
    seconds, (best, ratio) = _medians(rounds), auto_over_best(rounds)
    took = "  ".join(f"{name} {value:.4f}" for name, value in seconds.items())
    mark = "" if ratio <= WITHIN else "   <-- beyond"
    kind = f"{cell.store.name:<9}zipf {cell.zipf:<4g}{cell.batch:>8,} {cell.state}"
    progress(f"{kind}  {took}  auto/{best} {ratio:.3f} {chosen}{mark}")
    return {
        "store": cell.store.name,
        "zipf": cell.zipf,
        "batch": cell.batch,
        "state": cell.state,
        "seconds": seconds,
        "auto_over_best": ratio,
        "best": best,
        "rounds": len(rounds),
        "chosen": chosen,
        "bytes_read": read,
        "at": machine()["at"],
    }


def auto_over_best(rounds: Sequence[Seconds]) -> tuple[str, float]:
    """The best single tactic, and how much longer `auto` takes; below 1 it is faster than all of them."""
    ratios = {
        name: median([seconds["auto"] / seconds[name] for seconds in rounds if name in seconds]) for name in SINGLE
    }
    best = max(ratios, key=lambda name: ratios[name])
    return best, round(ratios[best], 4)


def run(data: DataSet, chosen: argparse.Namespace, settings: Settings) -> Iterator[dict[str, Any]]:
    """The grid so far, after every store and at last the whole of it. Stores left out keep the cells they have."""
    cells = [cell for cell in _kept(chosen.output) if cell["store"] not in chosen.stores]
    budget = int(data.bytes * chosen.share)
    for name in chosen.stores:
        with ExitStack() as stack:
            ways = {"pages": pages, "delta": in_delta, "postgres": partial(in_postgres, settings=settings)}
            store = stack.enter_context(ways[name](data))
            for state in store.states:
                for zipf in chosen.zipf:
                    for batch in chosen.batches:
                        cells.append(measure(Cell(data, store, zipf, batch, state, chosen.repeats, budget)))
        yield {
            "machine": machine(),
            "rows_in_master": data.rows,
            "budget_bytes": budget,
            "cells": cells,
            "within": WITHIN,
        }
    within = sum(cell["auto_over_best"] <= WITHIN for cell in cells)
    progress(f"auto within {WITHIN - 1:.0%} of the best single tactic in {within} of {len(cells)} cells")


def _kept(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text())["cells"]) if path.exists() else []


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.grid", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of R")
    parser.add_argument("--batches", type=int, nargs="+", default=[5_000, 50_000, 500_000], help="orders per batch")
    parser.add_argument("--zipf", type=float, nargs="+", default=[0.0, 1.0])
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    parser.add_argument("--share", type=float, default=0.10, help="memory of each join, as a share of R")
    parser.add_argument("--repeats", type=int, default=3, help="rounds per cell; more when they are short")
    parser.add_argument("--folder", type=Path, help="where the data set is kept (var/bench unless given)")
    parser.add_argument("--output", type=Path, default=RESULTS / "grid.json")
    return parser.parse_args(arguments)


def main() -> None:
    chosen = parsed()
    try:
        settings = configuration.load()
        for result in run(DataSet(chosen.folder or settings.var / "bench", chosen.rows), chosen, settings):
            progress(f"kept in {keep(result, chosen.output).name}")
    except FrontstageError as error:
        sys.exit(f"bench.grid: {error}")


if __name__ == "__main__":
    main()

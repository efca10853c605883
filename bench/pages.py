"""What master pages cost: publishing, refreshing and looking up, in seconds and in memory.

    python -m bench.pages --rows 10000000 --folder <scratch>

Every measurement runs in a process of its own, so that peak memory is that of the one thing measured. The source is
Postgres, or synthetic: customers of some 145 bytes, made batch by batch, either in key order or scattered.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench import pages_postgres
from bench.measured import RESULTS, aim, exit_code, keep, machine, progress
from etl import settings as configuration
from etl.errors import FrontstageError
from etl.masters.pages.compact import compact
from etl.masters.pages.publish import Publisher
from etl.masters.pages.store import PageStore
from etl.masters.source import Changes, Snapshot
from etl.settings import Settings

BATCH_ROWS = 131_072
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]
Figures = dict[str, Any]
_FROM_POSTGRES = "from Postgres"
MOST_SECONDS, MOST_MIB = 60.0, 512.0  # for publishing ten million rows


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured: how many rows, in which order they come, under which kind of key, and where pages go."""

    folder: Path
    rows: int
    key: str
    order: str = "sorted"
    dsn: str = field(default="", repr=False)

    @property
    def store(self) -> PageStore:
        return PageStore(self.folder / "customers")

    @property
    def schema(self) -> pa.Schema:
        return customers(np.arange(1), np.random.default_rng(), self.key).schema


def customers(ids: np.ndarray, rng: np.random.Generator, key: str) -> pa.RecordBatch:
    """Rows about as wide as a customer of TPC-H."""
    text = pc.cast(pa.array(ids), pa.string())
    padded = pc.utf8_lpad(text, 9, "0")
    names = pc.binary_join_element_wise(pa.scalar("Customer#"), padded, "")

    def one_of(values: list[str]) -> pa.Array:
        return pa.array(values).take(pa.array(rng.integers(0, len(values), len(ids))))

    return pa.record_batch(
        {
            "customer_id": pa.array(ids) if key == "int" else names,
            "name": names,
            "address": pc.binary_join_element_wise(text, pa.scalar(" Long Harbour Street, House "), text, ""),
            "nation": one_of([f"NATION {number}" for number in range(25)]),
            "region": one_of(["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]),
            "market_segment": one_of(SEGMENTS),
            "phone": pc.binary_join_element_wise(pa.scalar("25-"), pc.utf8_lpad(text, 10, "1"), ""),
            "account_balance": pa.array(rng.random(len(ids)) * 1e4),
            "updated_at": pa.array(rng.integers(1_600_000_000, 1_700_000_000, len(ids)) * 1_000_000).cast(
                pa.timestamp("us", "UTC")
            ),
        }
    )


def source(case: Case) -> Iterator[pa.RecordBatch]:
    """Keys 0 … rows-1, in order or each somewhere else."""
    rng = np.random.default_rng(7)
    step = next(prime for prime in (7_368_787, 15_485_863, 1) if np.gcd(prime, case.rows) == 1)
    for start in range(0, case.rows, BATCH_ROWS):
        ids = np.arange(start, min(case.rows, start + BATCH_ROWS), dtype=np.int64)
        yield customers(ids if case.order == "sorted" else ids * step % case.rows, rng, case.key)


def read_source(case: Case) -> Figures:
    """The source alone, to know what of publishing is ours."""
    return {"rows": sum(batch.num_rows for batch in source(case))}


def publish(case: Case) -> Figures:
    """A whole master, read back and checked."""
    if case.order == _FROM_POSTGRES:
        return pages_postgres.publish(case.dsn, case.store)
    snapshot = Snapshot(case.schema, ("customer_id",), source(case), {}, case.order == "sorted")
    manifest = Publisher(case.store).publish(snapshot)
    return {"bytes_per_row": round(manifest.size_bytes / manifest.rows, 1)}


def lookup(case: Case) -> Figures:
    """Uniform random keys, the hardest case for pages: the first lookup verifies what it reads, then steady state."""
    rng = np.random.default_rng(1)
    figures: Figures = {}
    with case.store.open() as view:
        for count in (1_000_000, 50_000, 1_000):
            wanted = [
                customers(rng.integers(0, case.rows, count), rng, case.key).column("customer_id") for _ in range(8)
            ]
            seconds = [timed(view.lookup, keys) for keys in wanted]
            figures[f"{count}"] = {
                "first_s": round(seconds[0], 4),
                "median_s": round(float(np.median(seconds[1:])), 4),
                "keys_per_s": round(count / float(np.median(seconds[1:]))),
            }
        del wanted
        return {"lookup": figures, "arrow_memory_bytes": pa.total_allocated_bytes()}


def timed(function: Callable[..., Any], *arguments: Any) -> float:
    began = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - began


def scan(case: Case) -> Figures:
    """One pass over all pages one by one, and again once they are verified."""

    def one_pass() -> None:
        for page in range(view.page_count()):
            view.read_pages(page, 1)

    with case.store.open() as view:
        return {"pages": view.page_count(), "first_s": timed(one_pass), "again_s": timed(one_pass)}


def refresh(case: Case) -> Figures:
    """Small and large sets of changes: the cost must follow them, not the master."""
    if case.order == _FROM_POSTGRES:
        return pages_postgres.refresh(case.dsn, case.store, case.rows)
    rng, seconds = np.random.default_rng(3), {}
    publisher = Publisher(case.store)
    for turn, count in enumerate((100, 100, 10_000, 100_000)):
        ids = np.unique(rng.integers(0, case.rows, count))
        upserts = pa.Table.from_batches([customers(ids[::2], rng, case.key)])
        deletes = customers(ids[1::20], rng, case.key).column("customer_id")
        changes = Changes(upserts, deletes, {"turn": turn})
        seconds[f"{turn}: {len(upserts) + len(deletes)} changes"] = round(timed(publisher.refresh, changes), 4)
    return {"refresh_s": seconds, "overlays": len(case.store.manifest().overlays)}


def fold(case: Case) -> Figures:
    """Overlays into a new base."""
    return {"rows": compact(case.store).rows}


def measured(step: Callable[[Case], Figures], case: Case) -> Figures:
    """A step in a fresh process: what it says, its seconds, and its peak memory."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (step, case))


def _measure(step: Callable[[Case], Figures], case: Case) -> Figures:
    began = time.perf_counter()
    figures = step(case)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": round(seconds, 2), "peak_rss_mib": peak >> 20, **figures}


STEPS: dict[str, list[tuple[Callable[[Case], Figures], str]]] = {
    "postgres": [(publish, _FROM_POSTGRES), (refresh, _FROM_POSTGRES)],
    "publish": [(read_source, "sorted"), (publish, "sorted")],
    "lookup": [(lookup, "sorted")],
    "scan": [(scan, "sorted")],
    "refresh": [(refresh, "sorted"), (lookup, "with overlays")],
    "compact": [(fold, "sorted")],
    "unsorted": [(publish, "unsorted")],
}


def run(case: Case, steps: Sequence[str], settings: Settings) -> list[Figures]:
    """The steps in turn, each beside nothing else."""
    results = []
    for step in steps:
        with ExitStack() as opened:
            if step == "postgres":
                own = settings.model_copy(update={"var": settings.var / "bench", "postgres_dsn": None})
                case = replace(case, dsn=opened.enter_context(pages_postgres.server(own, case.rows)))
            for function, order in STEPS[step]:
                figures = measured(function, replace(case, order=order))
                results.append({"what": f"{function.__name__}, {order}", **figures})
                progress(", ".join(f"{name} {value}" for name, value in results[-1].items()))
    return results


def aims(results: list[Figures]) -> list[dict[str, Any]]:
    """What publishing may take."""
    published = [figures for figures in results if figures["what"].startswith("publish, ")]
    seconds = [aim(f"{figures['what']}: seconds", figures["seconds"], most=MOST_SECONDS) for figures in published]
    memory = [aim(f"{figures['what']}: MiB", figures["peak_rss_mib"], most=MOST_MIB) for figures in published]
    return [*seconds, *memory]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.pages", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--key", choices=["int", "string"], default="int")
    parser.add_argument("--folder", type=Path, help="where pages are written (a temporary folder unless given)")
    parser.add_argument("--steps", nargs="*", choices=list(STEPS), default=list(STEPS))
    parser.add_argument("--output", type=Path, default=RESULTS / "pages.json")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pages-") as scratch:
        case = Case(chosen.folder or Path(scratch), chosen.rows, chosen.key)
        try:
            results = run(case, chosen.steps, configuration.load())
        except FrontstageError as error:
            sys.exit(f"bench.pages: {error}")
    result = {
        "machine": machine(),
        "rows_in_master": chosen.rows,
        "key": chosen.key,
        "rows": results,
        "aims": aims(results) if chosen.rows == 10_000_000 else [],
    }
    progress(f"kept in {keep(result, chosen.output).name}")
    return exit_code(result)


if __name__ == "__main__":
    sys.exit(main())

"""What master pages cost: publishing, refreshing and looking up, in seconds and in memory.

    python -m bench.pages --rows 10000000 --folder <scratch>

Every measurement runs in a process of its own, so that peak memory is that of the one thing measured. The source is
synthetic: customers of some 145 bytes, made batch by batch, either in key order or scattered.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.adapters.pages.compact import compact
from etl.adapters.pages.publish import Publisher
from etl.adapters.pages.source import Changes, Snapshot
from etl.adapters.pages.store import PageStore

BATCH_ROWS = 131_072
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]
Figures = dict[str, Any]


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


def source(rows: int, order: str, key: str) -> Iterator[pa.RecordBatch]:
    """Keys 0 … rows-1, in order or each somewhere else."""
    rng = np.random.default_rng(7)
    step = next(prime for prime in (7_368_787, 15_485_863, 1) if np.gcd(prime, rows) == 1)
    for start in range(0, rows, BATCH_ROWS):
        ids = np.arange(start, min(rows, start + BATCH_ROWS), dtype=np.int64)
        yield customers(ids if order == "sorted" else ids * step % rows, rng, key)


def read_source(folder: Path, rows: int, order: str, key: str) -> Figures:
    """The source alone, to know what of publishing is ours."""
    return {"rows": sum(batch.num_rows for batch in source(rows, order, key))}


def publish(folder: Path, rows: int, order: str, key: str) -> Figures:
    batches = source(rows, order, key)
    snapshot = Snapshot(
        customers(np.arange(1), np.random.default_rng(), key).schema,
        ("customer_id",),
        batches,
        {},
        order == "sorted",
    )
    manifest = Publisher(PageStore(folder)).publish(snapshot)
    return {"rows": manifest.rows, "bytes_per_row": manifest.size_bytes / manifest.rows}


def lookup(folder: Path, rows: int, order: str, key: str) -> Figures:
    """Uniform random keys: the hardest case for pages. First pass verifies pages, the others are steady state."""
    rng = np.random.default_rng(1)
    figures: Figures = {}
    with PageStore(folder).open() as view:
        for count in (1_000, 50_000, 1_000_000):
            seconds = []
            for _ in range(6):
                ids = rng.integers(0, rows, count)
                keys = (
                    customers(ids, rng, key).column("customer_id").unique() if key != "int" else pa.array(ids)
                )
                began = time.perf_counter()
                view.lookup(keys)
                seconds.append(time.perf_counter() - began)
            figures[f"{count}"] = {"first_s": seconds[0], "keys_per_s": count / float(np.median(seconds[1:]))}
    return {"lookup": figures, "anonymous_bytes": anonymous_bytes()}


def scan(folder: Path, rows: int, order: str, key: str) -> Figures:
    """One pass over all pages, and again once they are verified."""
    seconds = []
    with PageStore(folder).open() as view:
        for _ in range(2):
            began = time.perf_counter()
            seen = sum(view.read_pages(at, 1).num_rows for at in range(view.page_count()))
            seconds.append(time.perf_counter() - began)
        return {"rows": seen, "pages": view.page_count(), "first_s": seconds[0], "again_s": seconds[1]}


def refresh(folder: Path, rows: int, order: str, key: str) -> Figures:
    """Small and large sets of changes: the cost must follow them, not the master."""
    store, rng, seconds = PageStore(folder), np.random.default_rng(3), {}
    publisher = Publisher(store)
    for turn, count in enumerate((100, 100, 10_000, 100_000)):
        ids = rng.permutation(rows)[:count]
        upserts = pa.Table.from_batches([customers(ids[count // 10 :], rng, key)])
        deletes = customers(ids[: count // 10], rng, key).column("customer_id")
        began = time.perf_counter()
        publisher.refresh(Changes(upserts, deletes, {"turn": turn}))
        seconds[f"{turn}: {count} changes"] = time.perf_counter() - began
    return {"refresh_s": seconds, "overlays": len(store.manifest().overlays)}


def fold(folder: Path, rows: int, order: str, key: str) -> Figures:
    return {"rows": compact(PageStore(folder)).rows}


def anonymous_bytes() -> int:
    """Memory that is ours alone: mapped files do not count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def measured(step: Callable[..., Figures], *arguments: Any) -> Figures:
    """A step in a fresh process: what it says, its seconds, and its peak memory."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (step, arguments))


def _measure(step: Callable[..., Figures], arguments: tuple[Any, ...]) -> Figures:
    before, began = anonymous_bytes(), time.perf_counter()
    figures = step(*arguments)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": round(seconds, 2), "peak_rss_mib": peak >> 20, "start_mib": before >> 20, **figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--key", choices=["int", "string"], default="int")
    parser.add_argument(
        "--folder", type=Path, help="where pages are written (a temporary folder unless given)"
    )
    parser.add_argument(
        "--steps", nargs="*", default=["publish", "lookup", "scan", "refresh", "compact", "unsorted"]
    )
    chosen = parser.parse_args()
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="pages-"))
    plan: dict[str, list[tuple[str, Callable[..., Figures], str]]] = {
        "publish": [("source, sorted", read_source, "sorted"), ("publish, sorted", publish, "sorted")],
        "lookup": [("lookup", lookup, "sorted")],
        "scan": [("scan", scan, "sorted")],
        "refresh": [("refresh", refresh, "sorted"), ("lookup with overlays", lookup, "sorted")],
        "compact": [("compact", fold, "sorted")],
        "unsorted": [("publish, unsorted", publish, "unsorted")],
    }
    results: dict[str, Figures] = {}
    for step in chosen.steps:
        for name, function, order in plan[step]:
            results[name] = measured(function, folder / "customers", chosen.rows, order, chosen.key)
            print(name, json.dumps(results[name]), flush=True)
    if chosen.folder is None:
        shutil.rmtree(folder)
    print(json.dumps({"rows": chosen.rows, "key": chosen.key, "results": results}))


if __name__ == "__main__":
    main()

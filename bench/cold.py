"""R on disk, memory for a hundredth or a tenth of it: hot tuples in a front stage, or hot pages in the page cache?

    history        millions of orders, the same for both
    front-stage    cinlj; its front stage, lookups and all live in the bytes allowed; nothing in the page cache
    page-cache     inlj; the pages that history wanted most are put into the page cache, as many as fit those bytes
    every batch    all cached pages of R dropped (verified with mincore), hot pages brought back, then one timed join

The page cache gets the best case: the most wanted pages are chosen by counting, no page is lost to a scan, and the
choice costs it no time. `hit_ratio` is the share of orders whose whole row was in memory. `pages_read` counts 4 KiB
pages that the batch fetched from storage.

    cells              the kernel reads what is asked for and no more (MADV_RANDOM): what each memory is worth
    cells_read_ahead   it reads ahead, as it does unless told: storage with much bandwidth hides many single reads
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.data import DataSet, Draw
from bench.measured import RESULTS, keep, machine, median, progress
from bench.page_cache import PAGE, Flags, PageCache, bytes_read
from etl import settings as configuration
from etl.enrich.batch import build, join_batch
from etl.enrich.join import SemiStreamJoin
from etl.errors import FrontstageError
from etl.masters.pages.runs.run import Run
from etl.masters.pages.runs.writer import data_file
from etl.masters.pages.store import PageStore
from etl.masters.pages.view import MasterPages

_HISTORY_BATCH = 500_000
Pages = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Case:
    """One cell, for both contenders."""

    data: DataSet
    share: float
    zipf: float
    batch: int
    history: int  # orders before the first timed batch
    repeats: int

    @property
    def budget_bytes(self) -> int:
        return int(self.data.bytes * self.share)

    def past(self) -> Iterator[np.ndarray]:
        """The keys of history, batch after batch."""
        for number in range(-(-self.history // _HISTORY_BATCH)):
            yield self.data.keys(Draw(min(self.history, _HISTORY_BATCH), self.zipf, 1000 + number))

    def batches(self) -> list[np.ndarray]:
        return [self.data.keys(Draw(self.batch, self.zipf, number)) for number in range(self.repeats)]


class Rows:
    """Which pages of the file a master row lies on: keys are 1 … rows, so a key is its row."""

    def __init__(self, run: Run, base: int) -> None:
        self._run, self._base = run, base

    def pages(self, keys: np.ndarray) -> Pages:
        """One column per key (sorted, distinct), one line per place where something of its row begins or ends."""
        rows = keys - 1
        segments = np.searchsorted(self._run.starts, rows, "right") - 1
        parts = []
        for number in np.unique(segments):
            local = rows[segments == number] - self._run.starts[number]
            columns = self._run.segment(int(number))[0].columns
            places = [place for column in columns for place in _places(column, local)]
            parts.append((np.stack(places) - self._base) // PAGE)
        return np.concatenate(parts, axis=1)


def _places(column: pa.Array, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Addresses that reading these rows of a column touches."""
    _, first, *rest = column.buffers()
    if not rest:
        yield first.address + rows * (column.type.bit_width // 8)
        return
    yield first.address + rows * 4
    yield first.address + (rows + 1) * 4
    offsets = np.frombuffer(first, np.int32)
    yield rest[0].address + offsets[rows].astype(np.int64)
    yield rest[0].address + np.maximum(offsets[rows], offsets[rows + 1] - 1).astype(np.int64)


class Wanted:
    """How often each page was wanted: the best a page cache could know."""

    def __init__(self, rows: Rows, pages: int, most: int) -> None:
        self._rows, self._most = rows, most
        self._counts = np.zeros(pages, np.int64)

    def learn(self, keys: np.ndarray) -> None:
        distinct, times = np.unique(keys, return_counts=True)
        pages = self._rows.pages(distinct)
        weights = np.broadcast_to(times, pages.shape)
        self._counts += np.bincount(pages.ravel(), weights.ravel(), len(self._counts)).astype(np.int64)

    def hottest(self) -> Flags:
        """The most wanted pages, as many as there is memory for."""
        flags = np.zeros(len(self._counts), np.bool_)
        most = min(self._most, int(np.count_nonzero(self._counts)))
        flags[np.argpartition(-self._counts, max(0, most - 1))[:most]] = True
        return flags

    def hit_ratios(self, keys: np.ndarray, warm: Flags) -> tuple[float, float]:
        """The share of orders whose row lies on warm pages only, and of wanted pages that are warm."""
        distinct, times = np.unique(keys, return_counts=True)
        pages = self._rows.pages(distinct)
        return float(times[warm[pages].all(axis=0)].sum() / len(keys)), float(warm[np.unique(pages)].mean())


@dataclass(frozen=True, slots=True)
class Timed:
    """One timed batch."""

    seconds: float
    hit_ratio: float
    pages_read: int
    page_hit_ratio: float | None = None  # of the pages a batch wants, for the page cache


def timed(join: SemiStreamJoin, keys: np.ndarray) -> Timed:
    """One batch, and what it fetched from storage."""
    wanted = pa.array(keys)
    before, began = bytes_read(), time.perf_counter()
    result = join_batch(join, wanted)
    seconds = time.perf_counter() - began
    return Timed(seconds, result.metrics.hit_ratio, (bytes_read() - before) // PAGE)


def front_stage(case: Case, view: MasterPages, cache: PageCache) -> list[Timed]:
    """Hot tuples, learned from history; the page cache is empty whenever a batch starts."""
    join = build("cinlj", lookup=view, budget_bytes=case.budget_bytes)
    for keys in case.past():
        join_batch(join, pa.array(keys))
    runs = []
    for keys in case.batches():
        _drop(cache)
        runs.append(timed(join, keys))
    return runs


def page_cache(case: Case, view: MasterPages, cache: PageCache) -> list[Timed]:
    """No front stage; the hottest pages are in memory whenever a batch starts."""
    join = build("inlj", lookup=view, budget_bytes=case.budget_bytes)
    wanted = Wanted(Rows(view.runs[0], cache.address()), cache.pages, case.budget_bytes // PAGE)
    for keys in case.past():
        wanted.learn(keys)
    runs = []
    for keys in case.batches():
        warm = wanted.hottest()
        hits, page_hits = wanted.hit_ratios(keys, warm)
        _drop(cache)
        cache.warm(warm)
        run = timed(join, keys)
        runs.append(Timed(run.seconds, hits, run.pages_read, page_hits))
        wanted.learn(keys)
    return runs


CONTENDERS = {"front-stage": front_stage, "page-cache": page_cache}


def _drop(cache: PageCache) -> None:
    stayed = cache.drop()
    if stayed > cache.pages // 100:
        progress(f"  {stayed} of {cache.pages} pages could not be dropped: somebody else has them mapped")


def measure(case: Case, view: MasterPages, cache: PageCache) -> list[dict[str, Any]]:
    """Both contenders in one cell."""
    cells = []
    for name, contender in CONTENDERS.items():
        runs = contender(case, view, cache)
        seconds = median([run.seconds for run in runs])
        hits, read = float(np.median([run.hit_ratio for run in runs])), int(np.median([run.pages_read for run in runs]))
        progress(
            f"  {case.share:>4.0%}  zipf {case.zipf:g}  {name:<12}{seconds:>8.3f} s  hits {hits:.3f}  {read:,} pages"
        )
        cells.append(
            {
                "memory_share": case.share,
                "zipf": case.zipf,
                "batch": case.batch,
                "contender": name,
                "seconds": seconds,
                "hit_ratio": round(hits, 4),
                "pages_read": read,
                "bytes_allowed": case.budget_bytes,
                "page_hit_ratio": runs[-1].page_hit_ratio,
                "runs": [round(run.seconds, 4) for run in runs],
            }
        )
    return cells


def sweep(store: PageStore, cases: Sequence[Case], *, random_access: bool) -> list[dict[str, Any]]:
    """All cells on one way of reading. Every page is verified beforehand: a resident worker has done so long ago."""
    with store.open(random_access=random_access) as view:
        cache = PageCache([data_file(store.runs, view.runs[0].entry.name)])
        try:
            for page in range(0, view.page_count(), 512):
                view.read_pages(page, min(512, view.page_count() - page))
            return [cell for case in cases for cell in measure(case, view, cache)]
        finally:
            cache.close()


def run(data: DataSet, chosen: argparse.Namespace) -> dict[str, Any]:
    """The whole benchmark."""
    data.publish()
    cases = [
        Case(data, share, zipf, chosen.batch, chosen.history, chosen.repeats)
        for share in chosen.shares
        for zipf in chosen.zipf
    ]
    progress(f"R = {data.rows:,} rows, {data.bytes >> 20} MiB; reading single pages")
    cells = sweep(PageStore(data.pages), cases, random_access=True)
    progress("the same with read-ahead")
    ahead = sweep(PageStore(data.pages), cases, random_access=False)
    return {
        "machine": machine(),
        "rows_in_master": data.rows,
        "bytes_of_master": data.bytes,
        "history": chosen.history,
        "repeats": chosen.repeats,
        "cells": cells,
        "cells_read_ahead": ahead,
    }


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.cold", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of R")
    parser.add_argument("--batch", type=int, default=50_000, help="orders per batch")
    parser.add_argument("--zipf", type=float, nargs="+", default=[0.5, 1.0])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.01, 0.10], help="memory, as shares of R")
    parser.add_argument("--history", type=int, default=5_000_000, help="orders before the first timed batch")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the data set is kept (var/bench unless given)")
    parser.add_argument("--output", type=Path, default=RESULTS / "cold.json")
    return parser.parse_args(arguments)


def main() -> None:
    chosen = parsed()
    try:
        folder = chosen.folder or configuration.load().var / "bench"
        result = run(DataSet(folder, chosen.rows), chosen)
    except FrontstageError as error:
        sys.exit(f"bench.cold: {error}")
    progress(f"kept in {keep(result, chosen.output).name}")


if __name__ == "__main__":
    main()

"""Figure 11: the time of a local join. FPJ, the baselines compiled on the same arrays, and those in plain Python.

All of them run in one thread, so their time is told in CPU seconds, which others on the machine change little. FPJ
joins several windows of a size, each once, and keeps all results, as a stream does. (A window that is joined again
finds its documents in the processor's caches and room for its results in memory; small windows gain most by that.)

Plain Python runs whole at small sizes. At 50,000 documents it runs for a bounded time; what it has not done by then is
extrapolated, for its work per document grows with the documents before it, and the row says so.

Every baseline must find FPJ's pairs, each of them, or nothing is kept: the compiled ones at all their sizes, Python at
the sizes where it runs whole. Where Python stops early, the pairs of the documents it has done are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.documents.data import SETS, join_input
from bench.measured import median, progress
from etl.correlate.documents.joining import compiled, fp_join, plain
from etl.correlate.documents.model import Documents, Pairs

SIZES, LARGE_SIZES = (5_000, 10_000, 20_000, 50_000), (100_000, 500_000)
_TOGETHER, _LEAST, _MOST = 2_500_000, 5, 10  # documents of all windows of a size; how many windows
PLAIN_SIZES = (1_000, 2_000, 5_000)
BOUND_S = 15.0
Row = dict[str, Any]


def measure(scale: int = 1) -> list[Row]:
    """All rows of figure 11; sizes are divided by `scale`."""
    for name in SETS:  # compile before anything is timed
        small = join_input(name, 200)
        same(fp_join.join(small), compiled.nested_loop(small), compiled.hash_join(small))
    return [row for name in SETS for row in _of_one(name, scale)]


def _of_one(name: str, scale: int) -> Iterator[Row]:
    sizes, large = ([size // scale for size in each] for each in (SIZES, LARGE_SIZES))
    for size in (size // scale for size in PLAIN_SIZES):
        yield from _plain_rows(name, join_input(name, size), None)
    for size in (*sizes, *large):
        documents = join_input(name, size)
        progress(f"figure 11    {name}  {size:,} documents")
        seconds, spread, pairs, results = _windows(name, documents)
        yield _row(name, "FPJ", size, seconds, results, len(documents.pairs)) | {"spread": spread}
        if size not in sizes:
            continue
        for label, join in (("NLJ, compiled", compiled.nested_loop), ("HBJ, compiled", compiled.hash_join)):
            baseline_s, found = _timed(join, documents)
            same(pairs, found)
            yield _row(name, label, size, baseline_s, len(found), len(documents.pairs))
        if size == sizes[-1]:
            yield from _plain_rows(name, documents, max(BOUND_S / scale, 60 * seconds))


def _plain_rows(name: str, documents: Documents, bound_s: float | None) -> Iterator[Row]:
    mappings, ours = plain.as_mappings(documents), fp_join.join(documents)
    for label, join in (("NLJ, Python", plain.nested_loop), ("HBJ, Python", plain.hash_join)):
        progress(f"figure 11    {name}  {len(documents):,} documents, {label}")
        started, partners, seconds = time.process_time(), list[list[int]](), 0.0
        for some in join(mappings):
            partners.append(some)
            seconds = time.process_time() - started
            if bound_s is not None and seconds > bound_s:
                break
        done = len(partners)
        same(_up_to(ours, documents, done), _pairs(partners, documents))
        whole = done == len(documents)
        # Work per document grows linearly with those before it, so all of it with the square of the share done.
        estimate = seconds if whole else seconds * (len(documents) / done) ** 2
        found = sum(map(len, partners)) if whole else None
        row = _row(name, label, len(documents), estimate, found, len(documents.pairs))
        yield row | {"measured_seconds": seconds, "documents_done": done, "extrapolated": not whole}


def _pairs(partners: list[list[int]], documents: Documents) -> Pairs:
    """The pairs of each document's partners, which came before it."""
    later = np.repeat(np.arange(len(partners)), [len(some) for some in partners])
    return Pairs(documents.ids[np.array([one for some in partners for one in some], np.int64)], documents.ids[later])


def _up_to(pairs: Pairs, documents: Documents, count: int) -> Pairs:
    """Those of the pairs whose documents are among the first ones."""
    among = np.isin(pairs.right, documents.ids[:count])
    return Pairs(pairs.left[among], pairs.right[among])


def _windows(name: str, first: Documents) -> tuple[float, float, Pairs, int]:
    """Median time of a window's join, half of the range by it, the first window's pairs, the median of how many."""
    size, seconds, made = len(first), [], []
    count = max(_LEAST, min(_MOST, _TOGETHER // size))
    for number in range(count):
        documents = join_input(name, size, number) if number else first
        assert len(documents.attributes), "the dictionary's arrays are made when first asked for, which is no join"
        took, pairs = _timed(fp_join.join, documents)
        seconds.append(took)
        made.append(pairs)
    spread = round((max(seconds) - min(seconds)) / 2 / median(seconds), 4)
    return median(seconds), spread, made[0], int(median([len(pairs) for pairs in made]))


def _timed(join: Callable[[Documents], Pairs], documents: Documents) -> tuple[float, Pairs]:
    started = time.process_time()
    pairs = join(documents)
    return time.process_time() - started, pairs


def _row(name: str, method: str, size: int, seconds: float, results: int | None, pairs: int) -> Row:
    return {
        "figure": "11", "data": name, "method": method, "documents": size, "seconds": seconds,
        "measured_seconds": seconds, "results": results, "pairs": pairs, "extrapolated": False,
    }  # fmt: skip


def same(one: Pairs, *others: Pairs) -> None:
    """Results must be equal, or nothing that was measured counts."""
    wanted = one.sorted()
    for other in others:
        found = other.sorted()
        if not (np.array_equal(wanted.left, found.left) and np.array_equal(wanted.right, found.right)):
            raise AssertionError("two joins of the same documents differ")

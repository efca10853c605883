"""Parallel work on mapped pages that may be on disk: page faults of many threads overlap.

Touching a page that is not in memory blocks the thread until it is read; storage serves many such reads at once. So
segments are processed in this thread until one turns out to be slow; the rest is done by a thread pool. Arrow and NumPy
release the GIL while they search and copy, so the waits overlap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

Item = TypeVar("Item")
Done = TypeVar("Done")

_THREADS = 16
_SLOW_S = 20e-6
"""Per row: memory needs less than a microsecond, storage some hundred."""


def parallel_map(work: Callable[[Item], Done], items: Sequence[Item], rows: Callable[[Item], int]) -> list[Done]:
    """Apply `work` to every item; results in order. `rows` gives the size of an item."""
    done: list[Done] = []
    for number, item in enumerate(items):
        began = time.perf_counter()
        done.append(work(item))
        if time.perf_counter() - began > _SLOW_S * max(100, rows(item)):
            return [*done, *_threads().map(work, items[number + 1 :])]
    return done


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="waits-for-pages")

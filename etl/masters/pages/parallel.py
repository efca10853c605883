"""Work on mapped pages that may be on disk: many threads wait for many pages where one would wait for one at a time.

A page that is not in memory is read when it is touched, and who touched it waits. Storage can do many such reads at
once. So work on segments goes on in this thread as long as it does not wait; once a segment turns out to be slow, the
others are done by threads. Arrow and NumPy release Python's lock while they search and copy, so the waits overlap.
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
"""Per row: memory answers in less than one, storage in some hundred microseconds."""


def parallel_map(work: Callable[[Item], Done], items: Sequence[Item], rows: Callable[[Item], int]) -> list[Done]:
    """`work` on every item, in their order; `rows` says how much an item is."""
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

"""Which pages of a run have passed their checksum, shared by all processes of a machine (ADR 18).

    base-00000001.arrows                    the run
    base-00000001.5f3a….verified            one byte per page: 1 once its checksum was right

Python workers come and go between batches; if each of them verified for itself, a batch would cost what the master is
large, not what the batch is. The marks are named after the run's file exactly as it is (its inode, size and times),
the machine's boot and the day: a file that anybody wrote to, another boot or another day begin without a mark. Where
the folder cannot be written to, a process keeps its own marks.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import time
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

Marks = npt.NDArray[np.bool_]

_DAY_S = 86_400
_TICK_S = 0.02
"""Longer than two writes can be apart and still leave a file with the same time."""


def marks_of(run: Path, pages: int) -> Marks:
    """The marks of a run, shared with every process that has it open."""
    if not pages:
        return np.zeros(0, np.bool_)
    try:
        return _mapped(_marks_file(run), pages)
    except OSError:
        return np.zeros(pages, np.bool_)


def mark_all(run: Path, pages: int) -> None:
    """Every page has just been read and found whole."""
    written = run.stat().st_mtime
    time.sleep(max(0.0, min(_TICK_S, written + _TICK_S - time.time())))  # a write from now on leaves another time
    for old in marks_beside(run):
        old.unlink(missing_ok=True)
    marks_of(run, pages)[:] = True


def marks_beside(run: Path) -> list[Path]:
    """The marks of a run as it is, and as it was."""
    return list(run.parent.glob(f"{run.stem}.*.verified"))


def _marks_file(run: Path) -> Path:
    seen = run.stat()
    exactly = (seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, _boot(), int(time.time()) // _DAY_S)
    return run.with_name(f"{run.stem}.{hashlib.sha256(repr(exactly).encode()).hexdigest()[:16]}.verified")


def _mapped(path: Path, pages: int) -> Marks:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.posix_fallocate(descriptor, 0, pages)  # what others wrote stays; a full disk says so here, not by a signal
        return np.frombuffer(mmap.mmap(descriptor, pages), np.bool_)
    finally:
        os.close(descriptor)


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:  # not Linux: marks live as long as the process that made them
        return f"{os.getpid()} {time.time_ns()}"

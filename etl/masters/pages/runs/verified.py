"""Which pages of a run have passed their checksum, shared by all processes of a machine (ADR 18).

    base-00000001.arrows                    the run
    base-00000001.5f3a….verified            one byte per page: 1 once its checksum was right

Python workers come and go between batches; if each of them verified for itself, a batch's cost would depend on the
master's size. The name of the marks contains the run file's inode, size and times, the machine's boot id and the day:
marks are void after a write to the file, a reboot, or at a new day. If the folder is not writable, a process keeps its
own marks.
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
"""Longer than the resolution of file timestamps."""


def marks_of(run: Path, pages: int) -> Marks:
    """The marks of a run, shared with every process that has it open."""
    if not pages:
        return np.zeros(0, np.bool_)
    try:
        return _mapped(_marks_file(run), pages)
    except OSError:
        return np.zeros(pages, np.bool_)


def mark_all(run: Path, pages: int) -> None:
    """Mark every page: all were just read and verified."""
    written = run.stat().st_mtime
    time.sleep(max(0.0, min(_TICK_S, written + _TICK_S - time.time())))  # any later write gets another timestamp
    for old in marks_beside(run):
        old.unlink(missing_ok=True)
    marks_of(run, pages)[:] = True


def marks_beside(run: Path) -> list[Path]:
    """The files of a run's marks, current and void."""
    return list(run.parent.glob(f"{run.stem}.*.verified"))


def _marks_file(run: Path) -> Path:
    seen = run.stat()
    exactly = (seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, _boot(), int(time.time()) // _DAY_S)
    return run.with_name(f"{run.stem}.{hashlib.sha256(repr(exactly).encode()).hexdigest()[:16]}.verified")


def _mapped(path: Path, pages: int) -> Marks:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.posix_fallocate(descriptor, 0, pages)  # keeps existing marks; a full disk raises here, not SIGBUS later
        return np.frombuffer(mmap.mmap(descriptor, pages), np.bool_)
    finally:
        os.close(descriptor)


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:  # not Linux: marks live as long as this process
        return f"{os.getpid()} {time.time_ns()}"

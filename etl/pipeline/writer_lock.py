"""The writer's lock of one pipeline: the ledger's lock and epoch, then a file lock beside the tables (ADR 8, ADR 74).

The file lock keeps a second ledger away from the same tables. The file names its ledger and epoch: a holder with an
older epoch of our own ledger (such as a stopped process) is void and cannot release the lock, so the file is replaced.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from etl.adapters import ledger
from etl.adapters.durable import make_folder
from etl.adapters.ledger import Writer
from etl.errors import Busy
from etl.settings import Settings

_LOOK_AGAIN_S = 0.2


@contextmanager
def writing(settings: Settings, dsn: str, pipeline: str, holder: str, patience_s: float = 0) -> Iterator[Writer]:
    """Become the only writer of a pipeline; raises `Busy` if another one holds the lock beyond `patience_s`."""
    until = time.monotonic() + patience_s
    with ExitStack() as held:
        while True:
            try:
                with ExitStack() as taken:
                    writer = taken.enter_context(ledger.writing(dsn, pipeline, holder))
                    taken.enter_context(_file_lock(settings.warehouse / pipeline, writer))
                    held.enter_context(taken.pop_all())
                break
            except Busy:
                if time.monotonic() >= until:
                    raise
                time.sleep(_LOOK_AGAIN_S)
        yield writer


@contextmanager
def _file_lock(folder: Path, writer: Writer) -> Iterator[None]:
    """A file lock beside a local root: two ledgers must never write one warehouse."""
    make_folder(folder)
    path, ours = folder / ".writer", {"ledger": writer.ledger.identity(), "epoch": writer.epoch}
    descriptor = _locked(path)
    if descriptor is None and _is_overtaken(path, ours):
        path.unlink(missing_ok=True)
        descriptor = _locked(path)
    if descriptor is None:
        raise Busy(f"another process, which holds {path}")
    try:
        os.pwrite(descriptor, json.dumps(ours).encode().ljust(200), 0)
        yield
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock on this file; None when another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _is_overtaken(path: Path, ours: dict[str, object]) -> bool:
    """Whether the holder is an earlier writer of our own ledger: its epoch is void already."""
    try:
        held = json.loads(path.read_bytes())
        return held["ledger"] == ours["ledger"] and int(held["epoch"]) < int(str(ours["epoch"]))
    except (OSError, ValueError, KeyError, TypeError):
        return False

"""The right to write one pipeline: a file lock beside its tables, then the ledger's advisory lock and epoch (ADR 8)."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from etl.adapters import ledger
from etl.adapters.ledger import Writer
from etl.errors import Busy
from etl.settings import Settings

_LOOK_AGAIN_S = 0.2


@contextmanager
def writing(settings: Settings, dsn: str, pipeline: str, holder: str, patience_s: float = 0) -> Iterator[Writer]:
    """Become the only writer of a pipeline; raises `Busy` when somebody else still is after so many seconds."""
    until = time.monotonic() + patience_s
    with ExitStack() as held:
        while True:
            try:
                with ExitStack() as taken:
                    taken.enter_context(_file_lock(settings, pipeline))
                    writer = taken.enter_context(ledger.writing(dsn, pipeline, holder))
                    held.enter_context(taken.pop_all())
                break
            except Busy:
                if time.monotonic() >= until:
                    raise
                time.sleep(_LOOK_AGAIN_S)
        yield writer


@contextmanager
def _file_lock(settings: Settings, pipeline: str) -> Iterator[None]:
    """A second lock beside a local root: two ledgers must never write one warehouse."""
    folder = settings.warehouse / pipeline
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / ".writer", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Busy(f"another process, which holds {folder / '.writer'}") from None
    finally:
        os.close(descriptor)

"""A writer's signs of life go on whatever goes wrong in between: one that is alive must not be overtaken."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from etl.adapters import lease, ledger, postgres


def test_a_heartbeat_that_meets_any_error_goes_on(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT_S", 0.01)
    connect, errors = postgres.connect, iter([MemoryError(), OSError(24, "Too many open files"), ValueError("?")])

    @contextmanager
    def failing(dsn: str, *, autocommit: bool = False, name: str = "frontstage") -> Iterator[postgres.Connection]:
        wrong = next(errors, None) if threading.current_thread().name.startswith("heartbeat") else None
        if wrong is not None:
            raise wrong
        with connect(dsn, autocommit=autocommit, name=name) as connection:
            yield connection

    monkeypatch.setattr(postgres, "connect", failing)
    with ledger.writing(database, "orders", "test") as writer:
        _wait_for_beat(writer)
    assert next(errors, None) is None, "it met all of them"


def test_a_heartbeat_that_is_killed_goes_on(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT_S", 0.01)
    with ledger.writing(database, "orders", "test") as writer:
        _wait_for_beat(writer)
        (heart,) = [one for one in threading.enumerate() if one.name == "heartbeat orders"]
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(heart.ident or 0), ctypes.py_object(SystemExit))
        heart.join(0.2)  # it would have ended by now
        _wait_for_beat(writer)
        assert heart.is_alive()


def _wait_for_beat(writer: ledger.Writer) -> None:
    beaten = "select beat_at from etl.pipeline where name = 'orders'"
    before = writer.ledger._all(beaten)
    for _ in range(500):
        if writer.ledger._all(beaten) != before:
            return
        threading.Event().wait(0.02)
    raise AssertionError("its heart has stopped")

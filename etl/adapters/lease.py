"""The lease of a pipeline's writer: a session's advisory lock, an epoch that rises with every writer, a heartbeat.

    free     the lock is taken, the epoch raised, a heartbeat begins
    held     the holder's heartbeat is recent: `Busy`, after giving the server time to notice a holder that just died
    silent   no heartbeat for a minute (a stopped process, a lost host): its sessions are terminated, the lock is taken

A silent writer that resumes finds its sessions gone and its epoch old, and is refused at its next commit. The lock
belongs to a server session, so a pooler that moves sessions between clients is refused (ADR 74).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psycopg2

from etl.adapters import postgres
from etl.errors import Busy, TerminalError

LOCK = 0x46_53_57_52
BEAT_S = 5.0
SILENT_S = 60.0
"""How long a writer may be silent before another one takes over."""
_FREED_WITHIN_S = 5.0
"""How long the server may take to notice a dead client, killed or terminated by us."""


class PooledSession(TerminalError):
    """A connection pooler shares one session among several clients."""

    exit_code = 78

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where

    def __str__(self) -> str:
        return (
            f"a pooler in transaction mode answers at {self.where}: locks would belong to anybody; "
            "let FRONTSTAGE_POSTGRES_DSN name the server itself, or a pool in session mode"
        )


@dataclass(frozen=True, slots=True)
class Lease:
    """A writer's lease, valid while its epoch is the newest and its session holds the lock."""

    epoch: int
    session: int  # process id of the server's backend


@contextmanager
def leased(dsn: str, connection: postgres.Connection, pipeline: str, holder: str) -> Iterator[Lease]:
    """Become the only writer of a pipeline on an open connection, or raise `Busy`."""
    with connection.cursor() as cursor:
        if not _lock(cursor, pipeline):
            _end_silent(cursor, pipeline)
            if not _lock_with_retries(cursor, pipeline):
                cursor.execute("select holder from etl.pipeline where name = %s", (pipeline,))
                (other,) = cursor.fetchone() or ("somebody",)
                raise Busy(other)
        session = session_of(connection)
        if session != connection.info.backend_pid:
            _refuse_shared_session(dsn, connection, session)
        cursor.execute(postgres.statement("pipeline_take_over"), {"pipeline": pipeline, "holder": holder})
        (epoch,) = cursor.fetchone() or (0,)
        cursor.execute("select set_config('application_name', %s, false)", (session_name(pipeline, epoch),))
        try:
            with _Heartbeat(dsn, pipeline, epoch):
                yield Lease(epoch, session)
        finally:
            # Closing alone frees the lock too, but a moment later than we return.
            with suppress(psycopg2.Error):
                cursor.execute("select pg_advisory_unlock(%s, hashtext(%s))", (LOCK, pipeline))


def session_name(pipeline: str, epoch: int) -> str:
    """The name of a writer's sessions on the server, by which a silent writer's sessions are found."""
    return f"frontstage {epoch} {pipeline}"


def session_of(connection: postgres.Connection) -> int:
    """The process id of the backend that answers now."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        (pid,) = cursor.fetchone() or (0,)
        return int(pid)


def _lock(cursor: postgres.Cursor, pipeline: str) -> bool:
    cursor.execute("select pg_try_advisory_lock(%s, hashtext(%s))", (LOCK, pipeline))
    (granted,) = cursor.fetchone() or (False,)
    return bool(granted)


def _lock_with_retries(cursor: postgres.Cursor, pipeline: str) -> bool:
    until = time.monotonic() + _FREED_WITHIN_S
    while not _lock(cursor, pipeline):
        if time.monotonic() >= until:
            return False
        time.sleep(0.05)
    return True


def _end_silent(cursor: postgres.Cursor, pipeline: str) -> None:
    """Terminate all sessions of a writer whose heartbeat is too old."""
    values = {"pipeline": pipeline, "lock": LOCK, "silent_s": SILENT_S, "prefix": "frontstage "}
    cursor.execute(postgres.statement("writer_end_silent"), values)


def _refuse_shared_session(dsn: str, connection: postgres.Connection, session: int) -> None:
    """Detect a pooler: this connection must keep its session while another client is active."""
    with postgres.connect(dsn) as other:  # a transaction, so that it keeps its session until it ends
        if session_of(other) == session or session_of(connection) != session:
            raise PooledSession(postgres.place(dsn))


@dataclass(slots=True)
class _Heartbeat:
    """Sends a heartbeat every few seconds, over its own connection. Quick steps end before the first one."""

    dsn: str = field(repr=False)
    pipeline: str
    epoch: int
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> _Heartbeat:
        self._thread = threading.Thread(target=self._beat, name=f"heartbeat {self.pipeline}", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(BEAT_S)

    def _beat(self) -> None:
        """Retry after any error: if this thread ended, a live writer could be overtaken."""
        while True:
            with suppress(BaseException):
                if not self._over.wait(BEAT_S):
                    with postgres.connect(self.dsn, autocommit=True) as connection:
                        while self._send_heartbeat(connection) and not self._over.wait(BEAT_S):
                            pass
                return  # the work is over, or another writer has taken over

    def _send_heartbeat(self, connection: postgres.Connection) -> bool:
        """False when another writer has taken over."""
        with connection.cursor() as cursor:
            cursor.execute(
                "update etl.pipeline set beat_at = clock_timestamp() where name = %s and epoch = %s",
                (self.pipeline, self.epoch),
            )
            return bool(cursor.rowcount)

"""A proxy before Postgres that cuts the line at a chosen write: before it arrives, during it, or when it is answered.

    client ──▶ proxy ──▶ server          cut "before": the write never arrives
           ◀──       ◀──                 cut "during": it arrives, and both ends lose the line at once
                                         cut "after":  the write is done, and its acknowledgement is lost

Only statements that may write are counted: they begin with insert, update, delete, copy, merge, or commit.
"""

from __future__ import annotations

import re
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

Moment = Literal["before", "during", "after"]
_BEAT = b"update etl.pipeline set beat_at"  # comes when it comes, and nothing relies on a single one
_WRITE = re.compile(rb"(?:--[^\n]*\n|\s)*(insert|update|delete|copy|merge|commit|with\s+\w+\s+as\s*\(\s*update)", re.I)


@dataclass
class Proxy:
    """Relays every connection until the chosen write comes by."""

    folder: Path
    server: str
    cut_at: int | None = None
    moment: Moment = "before"
    writes: list[str] = field(default_factory=list)
    was_cut: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def relay(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, selectors.DefaultSelector() as ready:
            server.connect(self.server)
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            silent = False
            while True:
                for key, _ in ready.select():
                    source, target = key.fileobj, key.data
                    assert isinstance(source, socket.socket), "only sockets are registered"
                    data = source.recv(1 << 16)
                    if not data or (source is server and silent):
                        return
                    cut = source is client and self._is_due(data)
                    if cut and self.moment == "before":
                        return
                    silent = silent or cut
                    target.sendall(data)
                    if cut and self.moment == "during":
                        return

    def _is_due(self, data: bytes) -> bool:
        """Whether this is the write to cut at. psycopg2 sends a statement in one message: Q, length, text."""
        if data[:1] != b"Q" or not _WRITE.match(data[5:200]) or data[5:].startswith(_BEAT):
            return False
        with self._lock:
            self.writes.append(" ".join(data[5:90].decode("utf-8", "replace").split()))
            due = len(self.writes) - 1 == self.cut_at
            self.was_cut = self.was_cut or due
            return due


@contextmanager
def proxied(
    dsn: str, folder: Path, cut_at: int | None = None, moment: Moment = "before"
) -> Iterator[tuple[str, Proxy]]:
    """A DSN that goes through a proxy."""
    (where,) = parse_qs(urlsplit(dsn).query)["host"]
    (port,) = parse_qs(urlsplit(dsn).query).get("port", ["5432"])
    proxy = Proxy(folder, f"{where}/.s.PGSQL.{port}", cut_at, moment)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / f".s.PGSQL.{port}"))
        listener.listen()
        accepting = threading.Thread(target=_accept, args=(listener, proxy), daemon=True)
        accepting.start()
        from urllib.parse import quote

        yield dsn.replace(quote(where, safe=""), quote(str(folder), safe="")), proxy
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join(5)


def _accept(listener: socket.socket, proxy: Proxy) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_relay, args=(proxy, client), daemon=True).start()


def _relay(proxy: Proxy, client: socket.socket) -> None:
    with suppress(OSError):
        proxy.relay(client)

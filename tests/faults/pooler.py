"""A pooler in transaction mode, as small as one can be: sessions of the server are lent for one transaction each.

client A ─┐             ┌─ session 1      a session is given back when the server says that no transaction is open,
client B ─┴─ pooler ────┴─ session 2      and lent to whoever asks next, the one that was used last first
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

_IDLE = b"I"
_PROTOCOL = 196608


def _message(source: socket.socket, kind: bool = True) -> bytes:
    head = _exactly(source, 5 if kind else 4)
    (length,) = struct.unpack("!I", head[-4:])
    return head + _exactly(source, length - 4)


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = source.recv(count - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data


@dataclass
class Pooler:
    """Lends sessions."""

    server: str
    database: str
    idle: list[socket.socket] = field(default_factory=list)
    greeting: bytes = b""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def session(self) -> socket.socket:
        with self.lock:
            if self.idle:
                return self.idle.pop()
        made = socket.socket(socket.AF_UNIX)
        made.connect(self.server)
        parameters = b"user\0postgres\0database\0" + self.database.encode() + b"\0\0"
        made.sendall(struct.pack("!II", len(parameters) + 8, _PROTOCOL) + parameters)
        greeting = b""
        while True:
            message = _message(made)
            if message[:1] == b"Z":
                break
            if message[:1] == b"S":
                greeting += message
        self.greeting = greeting
        return made

    def serve(self, client: socket.socket) -> None:
        start = _message(client, kind=False)
        while struct.unpack("!I", start[4:8])[0] != _PROTOCOL:  # asks for encryption
            client.sendall(b"N")
            start = _message(client, kind=False)
        self.give_back(self.session())  # so that there is a greeting to repeat
        key = b"K" + struct.pack("!III", 12, 1, 1)  # a pooler's own, no process of the server
        client.sendall(b"R" + struct.pack("!II", 8, 0) + self.greeting + key + b"Z" + struct.pack("!I", 5) + _IDLE)
        while (asked := _message(client))[:1] != b"X":
            with self.session() as lent:
                while not self._answered(client, lent, asked):
                    asked = _message(client)
                self.give_back(socket.socket(fileno=lent.detach()))

    def _answered(self, client: socket.socket, session: socket.socket, asked: bytes) -> bool:
        """Pass one message on and its answer back; True when no transaction is open then."""
        session.sendall(asked)
        if asked[:1] != b"Q":
            return False
        answer = b""
        while answer[:1] != b"Z":
            answer = _message(session)
            client.sendall(answer)
        return answer[5:6] == _IDLE

    def give_back(self, session: socket.socket) -> None:
        with self.lock:
            self.idle.append(session)


@contextmanager
def pooled(dsn: str, folder: Path) -> Iterator[str]:
    """A DSN that goes through a pooler in transaction mode."""
    (where,) = parse_qs(urlsplit(dsn).query)["host"]
    pooler = Pooler(f"{where}/.s.PGSQL.5432", urlsplit(dsn).path[1:])
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / ".s.PGSQL.5432"))
        listener.listen()
        accepting = threading.Thread(target=_accept, args=(listener, pooler), daemon=True)
        accepting.start()
        yield dsn.replace(quote(where, safe=""), quote(str(folder), safe=""))
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join(5)
    for session in pooler.idle:
        session.close()


def _accept(listener: socket.socket, pooler: Pooler) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(pooler, client), daemon=True).start()


def _serve(pooler: Pooler, client: socket.socket) -> None:
    with client, suppress(OSError):
        pooler.serve(client)

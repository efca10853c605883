"""Copies of a test's database: what a restore from a backup puts in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from etl.adapters import postgres
from tests.support.site import Site

Backup = Callable[[Site], Callable[[], Site]]
"""Copies the database of a site; gives what puts the site on that copy."""


@dataclass
class Backups:
    """Copies databases of one server; `close` drops the copies."""

    server: str
    made: list[str] = field(default_factory=list)

    def copy(self, dsn: str) -> str:
        """A copy of the database as it is now; gives its address. Nobody may be connected to the original."""
        source = dsn.split("/")[3].split("?")[0]
        name = f"{source}_backup_{len(self.made)}"
        self._run(f"create database {name} template {source}")
        self.made.append(name)
        return dsn.replace(f"/{source}?", f"/{name}?")

    def close(self) -> None:
        for name in self.made:
            self._run(f"drop database {name} with (force)")

    def _run(self, command: str) -> None:
        with postgres.connect(self.server, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(command)

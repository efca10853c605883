"""Correlations over sites in Postgres: sites, entries of batches, plans, finished batches, shipments.

`follow` and `gather` write under the lock of all correlations; `work` at a site makes only idempotent writes: the first
report finishes a batch, with its shipments in the same transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg2 import Binary
from psycopg2.extras import Json

from etl.adapters import postgres
from etl.adapters.postgres.statements import Statements
from etl.correlate.multiway.execution.report import Shipped
from etl.errors import Busy
from etl.streams.storage.log import Segment

Plain = Mapping[str, Any]
_LOOK_AGAIN_S = 0.2
_ADD_SHIPMENTS = (
    "insert into etl.site_shipment (correlation, number, batch, kind, streams, origin, destination, tuples, bytes, "
    "replayed) values %s"
)


@dataclass(frozen=True, slots=True)
class KnownOverSites:
    """A correlation over sites that has begun."""

    name: str
    token: str
    declared: Plain
    since: int
    live: int
    published: int


class SiteLedger(Statements):
    """Statements about correlations over sites, on a connection that the caller owns."""

    def __init__(self, connection: postgres.Connection) -> None:
        super().__init__(connection, "correlations")

    # ── sites ──────────────────────────────────────────────────────────────────────────────────────────────────

    def sites(self) -> dict[str, str]:
        """Sites that were reached before, with their roots."""
        return {row["name"]: row["root"] for row in self._all("select name, root from etl.site")}

    def add_site(self, name: str, root: str) -> None:
        self._execute(
            "insert into etl.site (name, root) values (%(name)s, %(root)s) on conflict (name) do nothing",
            {"name": name, "root": root},
        )

    @contextmanager
    def working_at(self, places: Sequence[str], patience_s: float) -> Iterator[None]:
        """Lock some places: two workers of one place would duplicate all work."""
        until = time.monotonic() + patience_s
        with ExitStack() as held:
            for place in sorted(places):  # a fixed order prevents deadlocks
                while not self._lock("pg_try_advisory_lock", place):
                    if time.monotonic() > until:
                        raise Busy(f"another worker of site and correlation {place!r}")
                    time.sleep(_LOOK_AGAIN_S)
                held.callback(self._lock, "pg_advisory_unlock", place)
            yield

    def _lock(self, function: str, place: str) -> bool:
        query = f"select {function}(hashtextextended(%(place)s, 0)) as done"
        return bool(self._all(query, {"place": f"site {place}"})[0]["done"])

    # ── correlations ───────────────────────────────────────────────────────────────────────────────────────────

    def known(self) -> dict[str, KnownOverSites]:
        query = "select name, token, declared, since, live, published from etl.site_correlation"
        return {row["name"]: KnownOverSites(**row) for row in self._all(query)}

    def add(self, name: str, token: str, declared: Plain, since: int) -> None:
        self._execute(
            "insert into etl.site_correlation (name, token, declared, since) "
            "values (%(name)s, %(token)s, %(declared)s, %(since)s)",
            {"name": name, "token": token, "declared": Json(declared), "since": since},
        )

    def redeclare(self, name: str, declared: Plain) -> None:
        self._execute(
            "update etl.site_correlation set declared = %(declared)s where name = %(name)s",
            {"name": name, "declared": Json(declared)},
        )

    def remove(self, name: str) -> bool:
        """Remove a correlation; its files at the sites become garbage."""
        return bool(
            self._execute(
                "with gone as (delete from etl.site_correlation where name = %(name)s returning token) "
                "insert into etl.site_gone (token) select token from gone",
                {"name": name},
            )
        )

    def gone(self) -> list[str]:
        """The tokens in the file names of removed correlations."""
        return [row["token"] for row in self._all("select token from etl.site_gone order by token")]

    def forget_gone(self, token: str) -> None:
        self._execute("delete from etl.site_gone where token = %(token)s", {"token": token})

    def last_decided(self) -> int | None:
        query = "select max(batch) as last from etl.batch where pipeline = %(pipeline)s and state <> 'reading'"
        found = self._all(query)[0]["last"]
        return None if found is None else int(found)

    def segments(self, streams: Sequence[str], first_batch: int) -> dict[tuple[str, int], list[Segment]]:
        """The segments of these streams from a batch on, by stream and batch."""
        found: dict[tuple[str, int], list[Segment]] = {}
        for row in self._all(
            "select stream, number, rows, bytes, earliest, latest, batch from etl.segment "
            "where stream = any(%(streams)s) and batch >= %(first)s order by number",
            {"streams": list(streams), "first": first_batch},
        ):
            batch = row.pop("batch")
            found.setdefault((row["stream"], batch), []).append(Segment(**row))
        return found

    # ── statistics ─────────────────────────────────────────────────────────────────────────────────────────────

    def statistics(self, name: str) -> dict[int, tuple[int, bytes]]:
        """The sketches by stream, with the last batch in them."""
        query = "select stream, through, content from etl.site_statistics where correlation = %(name)s"
        return {row["stream"]: (row["through"], bytes(row["content"])) for row in self._all(query, {"name": name})}

    def save_statistics(self, name: str, stream: int, through: int, content: bytes) -> None:
        """Store sketches unless newer ones are stored, so that each batch is in them once."""
        self._execute(
            "insert into etl.site_statistics as kept (correlation, stream, through, content) "
            "values (%(name)s, %(stream)s, %(through)s, %(content)s) on conflict (correlation, stream) do update "
            "set through = excluded.through, content = excluded.content where kept.through < excluded.through",
            {"name": name, "stream": stream, "through": through, "content": Binary(content)},
        )

    # ── what is done ───────────────────────────────────────────────────────────────────────────────────────────

    def publish(self, name: str, number: int, figures: Plain) -> None:
        """Record that a batch's results are in the table."""
        with self.transaction():
            values = {"name": name, "number": number, "figures": Json(figures)}
            self._execute(
                "update etl.site_batch set figures = %(figures)s "
                "where correlation = %(name)s and number = %(number)s", values, rows=1,
            )  # fmt: skip
            self._execute(
                "update etl.site_correlation set published = %(number)s + 1 where name = %(name)s", values, rows=1
            )

    def set_live(self, name: str, live: int) -> None:
        self._execute(
            "update etl.site_correlation set live = %(live)s where name = %(name)s", {"name": name, "live": live}
        )

    def forget_history(self, before: datetime) -> int:
        """Delete figures of old finished batches that are in no window."""
        done = (
            "using etl.site_correlation one where one.name = {0}.correlation and {0}.number < least(one.live - 1, "
            "one.published)"
        )
        removed = self._execute(
            f"delete from etl.site_batch {done.format('site_batch')} and finished_at < %(before)s",  # noqa: S608
            {"before": before},
        )
        self._execute(
            "delete from etl.site_shipment where not exists (select 1 from etl.site_batch one where "
            "one.correlation = site_shipment.correlation and one.number = site_shipment.number)"
        )
        return removed

    # ── looking ────────────────────────────────────────────────────────────────────────────────────────────────

    def entries(self, name: str) -> list[dict[str, Any]]:
        """The batches that have begun and are still in the ledger."""
        return [row["content"] for row in self._all(
            "select content from etl.site_entry where correlation = %(name)s order by number", {"name": name}
        )]  # fmt: skip

    def batches(self, name: str, limit: int) -> list[dict[str, Any]]:
        """The newest batches that are finished, oldest first."""
        query = (
            "select number, batch, finished_at, figures from etl.site_batch where correlation = %(name)s "
            "order by number desc limit %(limit)s"
        )
        return list(reversed(self._all(query, {"name": name, "limit": limit})))

    def shipments(self, name: str, first: int) -> list[dict[str, Any]]:
        """Shipments from a batch of the correlation on, added up over files of one kind."""
        query = (
            "select number, batch, kind, streams, origin, destination, replayed, sum(tuples)::bigint as tuples, "
            "sum(bytes)::bigint as bytes from etl.site_shipment where correlation = %(name)s and number >= %(first)s "
            "group by number, batch, kind, streams, origin, destination, replayed order by number, streams, origin"
        )
        return self._all(query, {"name": name, "first": first})

    def finished_of(self, batch: int) -> dict[str, dict[str, Any]]:
        """The outcome of one batch of the ledger, by correlation."""
        query = "select correlation, number, figures from etl.site_batch where batch = %(batch)s"
        return {row.pop("correlation"): row for row in self._all(query, {"batch": batch})}


class LedgerBook(Statements):
    """The port `etl.correlate.multiway.execution.book.Book` in Postgres, for one correlation."""

    def __init__(self, connection: postgres.Connection, name: str, since: int) -> None:
        super().__init__(connection, "correlations")
        self.name, self.since = name, since

    def entries(self) -> list[Plain]:
        query = "select content from etl.site_entry where correlation = %(name)s order by number"
        return [row["content"] for row in self._all(query, {"name": self.name})]

    def add_entry(self, number: int, content: Plain) -> None:
        self._add("etl.site_entry", number, content)

    def plans(self) -> list[tuple[int, Plain]]:
        query = "select number, content from etl.site_plan where correlation = %(name)s order by number"
        return [(int(row["number"]), row["content"]) for row in self._all(query, {"name": self.name})]

    def add_plan(self, number: int, content: Plain) -> None:
        self._add("etl.site_plan", number, content)

    def finished(self) -> list[int]:
        query = (
            "select number from etl.site_batch where correlation = %(name)s and number >= "
            "(select min(number) from etl.site_entry where correlation = %(name)s)"
        )
        return [int(row["number"]) for row in self._all(query, {"name": self.name})]

    def finish(self, batch: int, shipped: Sequence[Shipped], replayed: Sequence[Shipped]) -> None:
        with self.transaction():
            first = self._execute(
                "insert into etl.site_batch (correlation, number, batch) values (%(name)s, %(number)s, %(batch)s) "
                "on conflict do nothing",
                {"name": self.name, "number": batch, "batch": self.since + batch},
            )
            rows = [(one, replay) for many, replay in ((shipped, False), (replayed, True)) for one in many]
            if first:
                self._insert(_ADD_SHIPMENTS, [self._row(one, batch, replay) for one, replay in rows])

    def forget(self, entries_before: int, plans_before: int) -> None:
        for table, before in (("etl.site_entry", entries_before), ("etl.site_plan", plans_before)):
            self._execute(
                f"delete from {table} where correlation = %(name)s and number < %(before)s",  # noqa: S608 - ours
                {"name": self.name, "before": before},
            )

    def _row(self, one: Shipped, batch: int, replayed: bool) -> tuple[Any, ...]:
        what = (one.kind, one.streams, one.origin, one.destination, one.tuples, one.bytes)
        return (self.name, batch, self.since + one.batch, *what, replayed)

    def _add(self, table: str, number: int, content: Plain) -> None:
        self._execute(
            f"insert into {table} (correlation, number, content) "  # noqa: S608 - ours
            "values (%(name)s, %(number)s, %(content)s) on conflict do nothing",
            {"name": self.name, "number": number, "content": Json(content)},
        )

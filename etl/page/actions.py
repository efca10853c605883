"""Actions on the page. Each is a run of a DAG: validated by its form, retried, logged, and on behalf of a user.

    link ─▶ confirmation (what will happen, signed) ─▶ POST ─▶ run of a DAG ─▶ how it goes

An action whose DAG this Airflow does not have is not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from etl.adapters.verdicts import RowId
from etl.errors import TerminalError
from etl.page.ports import Order

if TYPE_CHECKING:
    from etl.streams.adhoc.service import Queries

LONGEST_NOTE = 2000
LONGEST_SQL = 4000
_LONGEST_REASON = 200
_MOST_ROWS = 500


class ValueRefused(TerminalError):
    """A value that is invalid for an action."""

    def __init__(self, name: str, given: str, allowed: str) -> None:
        super().__init__(name, given, allowed)
        self.name, self.given, self.allowed = name, given, allowed

    def __str__(self) -> str:
        return f"{self.name}={self.given!r} is not allowed; give {self.allowed}"


@dataclass(frozen=True, slots=True)
class Asked:
    """The validated values of a form."""

    pipeline: str | None = None
    batch: int | None = None
    reason: str | None = None
    rows: tuple[str, ...] = ()
    note: str = ""
    unpause: bool = False
    query: str | None = None  # an ad-hoc query's name
    sql: str = ""
    within: str = ""

    @classmethod
    def of(cls, form: Mapping[str, Sequence[str]]) -> Asked:
        """Parse a form; raises for values that no action accepts."""
        batch, rows, note = _one(form, "batch"), tuple(form.get("row", ())), _one(form, "note") or ""
        reason = _one(form, "reason")
        if batch is not None and not (batch.isascii() and batch.isdecimal() and 0 < int(batch) < 2**62):
            raise ValueRefused("batch", batch, "a number such as 12")
        if reason is not None and len(reason) > _LONGEST_REASON:
            raise ValueRefused("reason", f"{reason[:20]}…", f"at most {_LONGEST_REASON} characters")
        if len(note) > LONGEST_NOTE:
            raise ValueRefused("note", f"{note[:20]}…", f"at most {LONGEST_NOTE} characters")
        if len(rows) > _MOST_ROWS:
            raise ValueRefused("row", f"{len(rows)} lines", f"at most {_MOST_ROWS}, or all of a batch or a reason")
        for row in rows:
            RowId.parse(row)
        query, sql, within = _one(form, "query"), _one(form, "sql") or "", _one(form, "within") or ""
        for name, given, most in (("query", query or "", 63), ("sql", sql, LONGEST_SQL), ("within", within, 40)):
            if len(given) > most:
                raise ValueRefused(name, f"{given[:20]}…", f"at most {most} characters")
        return cls(
            pipeline=_one(form, "pipeline"),
            batch=None if batch is None else int(batch),
            reason=reason,
            rows=rows,
            note=note,
            unpause=_one(form, "unpause") == "yes",
            query=query,
            sql=sql,
            within=within,
        )

    def signed(self) -> dict[str, Any]:
        """The values covered by a confirmation's signature: all but those typed into it."""
        lines = {"pipeline": self.pipeline, "batch": self.batch, "reason": self.reason, "rows": list(self.rows)}
        return {**lines, "query": self.query, "sql": self.sql, "within": self.within}

    @property
    def lines(self) -> str:
        """The selected refused lines, in words."""
        if self.rows:
            return f"{len(self.rows)} refused lines ({', '.join(self.rows[:10])}{'…' if len(self.rows) > 10 else ''})"
        parts = [f"of batch {self.batch}" * bool(self.batch), f"refused for {self.reason}" * bool(self.reason)]
        return " ".join(["all open lines", *filter(None, parts)])


@dataclass(frozen=True, slots=True)
class Action:
    """An action: its DAG, the run's configuration, and the text of its confirmation."""

    name: str
    label: str
    dag: Callable[[Asked], str]
    conf: Callable[[Asked], dict[str, Any]]
    sentence: Callable[[Asked], str]
    needs: tuple[str, ...] = ()  # of `pipeline`, `batch`, `lines`, `query`
    needs_note: bool = False
    grave: bool = False
    examine: Callable[[Queries, Asked, str], None] | None = None  # further checks before the form is shown

    def order(self, asked: Asked) -> Order:
        """The run to start. Raises `ValueRefused` when a value is missing."""
        self.check(asked)
        if self.needs_note and not asked.note.strip():
            raise ValueRefused("note", "", "a reason: this is final")
        return Order(self.name, self.dag(asked), self.conf(asked), asked.note, asked.unpause)

    def check(self, asked: Asked) -> None:
        if "pipeline" in self.needs and asked.pipeline is None:
            raise ValueRefused("pipeline", "", "the name of a pipeline")
        if "query" in self.needs and asked.query is None:
            raise ValueRefused("query", "", "the name of a query")
        if "batch" in self.needs and asked.batch is None:
            raise ValueRefused("batch", "", "a number such as 12")
        if "lines" in self.needs and not (asked.rows or asked.batch or asked.reason):
            raise ValueRefused("row", "", "refused lines, a batch or a reason")


def _one(form: Mapping[str, Sequence[str]], name: str) -> str | None:
    found = [value for value in form.get(name, ()) if value]
    return found[-1] if found else None


def _pipeline(asked: Asked) -> str:
    return asked.pipeline or ""


def _lines(action: str) -> Callable[[Asked], dict[str, Any]]:
    return lambda asked: {
        "pipeline": asked.pipeline,
        "action": action,
        "rows": list(asked.rows),
        "batch": asked.batch,
        "reason": asked.reason,
        "note": asked.note,
    }


def _query(action: str) -> Callable[[Asked], dict[str, Any]]:
    return lambda asked: {
        "action": action,
        "name": asked.query,
        "sql": asked.sql,
        "within": asked.within or "2m",
        "expires": None,
        "limit": 20,
    }


ACTIONS: dict[str, Action] = {
    one.name: one
    for one in (
        Action(
            "run",
            "Run a batch now",
            dag=_pipeline,
            conf=lambda _: {},
            sentence=lambda asked: f"Start a micro-batch of {asked.pipeline}.",
            needs=("pipeline",),
        ),
        Action(
            "release-batch",
            "Release this batch",
            dag=_pipeline,
            conf=lambda asked: {"release": asked.batch},
            sentence=lambda asked: (
                f"Let batch {asked.batch} of {asked.pipeline} pass although its audit failed: it is loaded as it is."
            ),
            needs=("pipeline", "batch"),
            grave=True,
        ),
        Action(
            "release-lines",
            "Release",
            dag=lambda _: "quarantine",
            conf=_lines("release"),
            sentence=lambda asked: f"Send {asked.lines} of {asked.pipeline} in again; the next batch reads them.",
            needs=("pipeline", "lines"),
        ),
        Action(
            "reject-lines",
            "Reject",
            dag=lambda _: "quarantine",
            conf=_lines("reject"),
            sentence=lambda asked: f"Keep {asked.lines} of {asked.pipeline} out for good.",
            needs=("pipeline", "lines"),
            needs_note=True,
            grave=True,
        ),
        Action(
            "create-query",
            "Create this query",
            dag=lambda _: "query",
            conf=_query("create"),
            sentence=lambda asked: (
                f"Create the query {asked.query} within {asked.within}: {' '.join(asked.sql.split())}. "
                "It sees what comes with the next micro-batch of correlations, and later."
            ),
            needs=("query",),
            examine=lambda queries, asked, user: queries.examine_new(asked.query or "", asked.sql, asked.within, user),
        ),
        Action(
            "delete-query",
            "Delete this query",
            dag=lambda _: "query",
            conf=_query("delete"),
            sentence=lambda asked: f"Delete the query {asked.query}: the next micro-batch has no result of it.",
            needs=("query",),
            grave=True,
            examine=lambda queries, asked, user: queries.examine_owner(asked.query or "", user),
        ),
        Action(
            "drain-backlog",
            "Drain the backlog",
            dag=lambda _: "backlog",
            conf=lambda _: {},
            sentence=lambda _: "Bring back what was shed under load, oldest first, in batches of every pipeline.",
        ),
        Action(
            "refresh-masters",
            "Refresh masters",
            dag=lambda _: "master_data",
            conf=lambda _: {},
            sentence=lambda _: "Bring the pages of every master up to what is committed now.",
        ),
    )
}
"""By name, as in their URLs."""

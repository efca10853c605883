"""Which changes of a correlation's declaration its state allows (ADR 53).

applied             formatting of the SQL, a smaller lateness, capacity and elasticity
refused             everything else: the stored state belongs to the old query, or was expired too early
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import sqlglot

from etl.contract.correlations.correlation import Correlation, LoggedStream
from etl.contract.correlations.documents import DocumentCorrelation
from etl.contract.words.types import declared_name
from etl.correlate.query.compile import Query
from etl.errors import TerminalError
from etl.streams.tasks.plan import microseconds

_FIXED = ("sql", "within", "period", "routing", "units", "subgroups", "types")
_FIXED_OF_DOCUMENTS = ("stream", "window", "keep", "flattening", "constants")


class CorrelationChanged(TerminalError):
    """A correlation's declaration does not fit its stored state."""

    exit_code = 78

    def __init__(self, correlation: str, what: str, before: str, now: str) -> None:
        super().__init__(correlation, what, before, now)
        self.correlation, self.what, self.before, self.now = correlation, what, before, now

    def __str__(self) -> str:
        return (
            f"correlation {self.correlation!r} cannot change {self.what} from {self.before} to {self.now}: its state "
            "was built for the former; undo it, give it another name, or "
            f"`frontstage correlate reset {self.correlation}`"
        )


def declaration(declared: Correlation, query: Query) -> dict[str, Any]:
    """A correlation as plain values that can be compared."""
    types = {name: declared_name(kind) for name, kind in _used(query).items()}
    return {
        "sql": normal_sql(declared.sql),
        "within": None if declared.within is None else microseconds(declared.within),
        "lateness": microseconds(declared.lateness),
        "period": None if declared.period is None else microseconds(declared.period),
        "routing": declared.routing,
        "units": list(declared.units),
        "subgroups": None if declared.subgroups is None else list(declared.subgroups),
        "types": types,
    }


def document_declaration(declared: DocumentCorrelation, stream: LoggedStream) -> dict[str, Any]:
    """A correlation of documents as plain values that can be compared."""
    flattening = stream.flattening
    assert flattening is not None, "a correlation of documents is over a stream of documents"
    return {
        "stream": declared.stream,
        "window": [declared.window.by, declared.window.size, declared.window.slide],
        "lateness": microseconds(declared.lateness),
        "keep": list(declared.keep),
        "flattening": {**asdict(flattening), "ignore": sorted(flattening.ignore)},
        "constants": declared.constants,
    }


@lru_cache(maxsize=512)
def normal_sql(sql: str) -> str:
    """Normalize SQL: the same text for the same statement, whatever its formatting."""
    return sqlglot.parse_one(sql, dialect="spark").sql(dialect="spark")


def _used(query: Query) -> dict[str, Any]:
    """The types of columns that state or results depend on."""
    names = set(query.columns) | {source.event_time for source in query.sources.values()}
    for step in query.steps:
        for key in step.condition.keys:
            names |= key.left.columns | key.right.columns
        if step.condition.band is not None:
            names |= step.condition.band.left.value.columns | step.condition.band.right.value.columns
        if step.condition.residual is not None:
            names |= step.condition.residual.columns
    return {name: query.schema.field(name).type for name in sorted(names)}


def refuse_change(before: Mapping[str, Any], declared: Correlation, query: Query) -> None:
    """Raises `CorrelationChanged` unless the state allows the change."""
    now = declaration(declared, query)
    for what in _FIXED:
        if before[what] != now[what]:
            raise CorrelationChanged(declared.name, what, _shown(before[what]), _shown(now[what]))
    _refuse_lateness(declared.name, before, now)


def refuse_document_change(before: Mapping[str, Any], declared: DocumentCorrelation, stream: LoggedStream) -> None:
    """Raises `CorrelationChanged` unless the state allows the change: of partitions, budget and bounds."""
    now = document_declaration(declared, stream)
    before = {"constants": "keep", **before}  # older declarations lack it
    for what in _FIXED_OF_DOCUMENTS:
        if before[what] != now[what]:
            raise CorrelationChanged(declared.name, what, _shown(before[what]), _shown(now[what]))
    _refuse_lateness(declared.name, before, now)


def refuse_kind(name: str, was: str, now: str) -> None:
    """A correlation of SQL cannot become one of documents, nor the other way round."""
    raise CorrelationChanged(name, "its kind", was, now)


def _refuse_lateness(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    if now["lateness"] > before["lateness"]:
        given = (f"{before['lateness'] / 1e6:g} s", f"{now['lateness'] / 1e6:g} s")
        raise CorrelationChanged(name, "lateness", *given)


def _shown(value: Any) -> str:
    text = str(value)
    return repr(text if len(text) <= 60 else text[:57] + "...")

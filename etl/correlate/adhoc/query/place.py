"""Positions in a query's text, for error messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from etl.correlate.adhoc.errors import QueryRefused
from etl.correlate.adhoc.query.model import ColumnOf, Stream


def refuse(sql: str, node: exp.Expr | None, reason: str) -> QueryRefused:
    """The error for `node`: at the first known position inside it, else at the start of the text."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta] if node is not None else []
    before = sql[: min(starts, default=0)]
    return QueryRefused(reason, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


@dataclass(frozen=True, slots=True)
class Scope:
    """The streams of a query, by alias."""

    sql: str
    streams: Mapping[str, Stream]  # alias, folded to lower case

    def resolve(self, node: exp.Column) -> ColumnOf:
        """The stream and column of a name."""
        name = node.name
        if node.table:
            stream = self.streams.get(node.table.lower())
            if stream is None:
                raise refuse(self.sql, node, f"{node.table!r} is not among the query's streams: {self._names()}")
            found = [(stream, column) for column in stream.columns if column.lower() == name.lower()]
        else:
            pairs = ((stream, column) for stream in self.streams.values() for column in stream.columns)
            found = [(stream, column) for stream, column in pairs if column.lower() == name.lower()]
        if len(found) > 1:
            where = " and ".join(stream.name for stream, _ in found)
            raise refuse(self.sql, node, f"column {name!r} is in {where}; say which, as in {found[0][0].name}.{name}")
        if not found:
            known = ", ".join(sorted(c for s in self._meant(node) for c in s.columns))
            raise refuse(self.sql, node, f"column {name!r} is unknown; known are {known}")
        return ColumnOf(found[0][0].name, found[0][1])

    def type_of(self, of: ColumnOf) -> pa.DataType:
        return next(s for s in self.streams.values() if s.name == of.stream).columns[of.column]

    def _meant(self, node: exp.Column) -> list[Stream]:
        return [self.streams[node.table.lower()]] if node.table else list(self.streams.values())

    def _names(self) -> str:
        return ", ".join(self.streams)

"""SQL about the key of a Postgres table: rows with these keys, rows between two keys, the first keys of pages.

    lookup   id = any('{7,9}'::bigint[])                        (region, code) in (select * from unnest(…, …))
    page     id >= 7 and id < 9                                 (region, code) >= (1, 'a') and (region, code) < (1, 'k')

Text is ordered by its bytes, because the page of a key is found here and not by the server. Where the column's own
collation sorts by bytes (C, POSIX, C.UTF-8 of Postgres itself), its index can be used. Elsewhere every comparison says
COLLATE "C", which needs an index with that collation: `create index on t (code collate "C")`.

Values are quoted literals, many keys one array literal: the statement's size in parts does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql

from etl.adapters import postgres

_COMMA = sql.SQL(", ")


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of a key: an integer, or text."""

    name: str
    is_text: bool
    ordered_by_bytes: bool  # by its own collation; integers are always in order

    def ordered(self) -> sql.Composable:
        """The column's expression for comparing and sorting."""
        plain = sql.Identifier(self.name)
        return plain if self.ordered_by_bytes else sql.SQL('{} collate "C"').format(plain)

    def array(self, values: pa.Array) -> sql.Composable:
        """Many values as one literal."""
        items = _escaped(values) if self.is_text else values.cast(pa.string())
        text = "{" + ",".join(items.to_pylist()) + "}"
        return sql.SQL("{}::{}").format(sql.Literal(text), sql.SQL("text[]" if self.is_text else "bigint[]"))


@dataclass(frozen=True, slots=True)
class KeySql:
    """Statements about the key of one table."""

    table: str
    columns: tuple[KeyColumn, ...]

    def order(self) -> sql.Composable:
        """The ORDER BY expression."""
        return _COMMA.join(column.ordered() for column in self.columns)

    def any_of(self, parts: Sequence[pa.Array]) -> sql.Composable:
        """Rows with one of these keys, given column by column."""
        arrays = _COMMA.join(column.array(values) for column, values in zip(self.columns, parts, strict=True))
        if len(self.columns) == 1:
            return sql.SQL("{} = any({})").format(self._names(), arrays)
        return sql.SQL("({}) in (select * from unnest({}))").format(self._names(), arrays)

    def between(self, first: Sequence[Any] | None, stop: Sequence[Any] | None) -> sql.Composable:
        """Rows between two keys, the second exclusive; None is no bound."""
        bounds = [self._compared(">=", first)] if first is not None else []
        bounds += [self._compared("<", stop)] if stop is not None else []
        return sql.SQL(" and ").join(bounds) if bounds else sql.SQL("true")

    def null(self) -> sql.Composable:
        """Rows with NULL in the key."""
        return sql.SQL(" or ").join(sql.SQL("{} is null").format(sql.Identifier(c.name)) for c in self.columns)

    def fences(self, page_rows: int, *, indexed: bool) -> sql.Composable:
        """The first key of every page: with an index by skipping from page to page, else by sorting all keys once."""
        given = {
            "keys": self._names(),
            "order": self.order(),
            "table": postgres.identifier(self.table),
            "after": self._after_last_fence(),
            "skip": sql.Literal(page_rows - 1),
            "every": sql.Literal(page_rows),
        }
        return sql.SQL(_HOPPING if indexed else _NUMBERING).format(**given)

    def _names(self) -> sql.Composable:
        return _COMMA.join(sql.Identifier(column.name) for column in self.columns)

    def _compared(self, operator: Literal["<", ">="], values: Sequence[Any]) -> sql.Composable:
        literals = _COMMA.join(map(sql.Literal, values))
        return sql.SQL("({}) {} ({})").format(self.order(), sql.SQL(operator), literals)

    def _after_last_fence(self) -> sql.Composable:
        last = _COMMA.join(sql.Identifier("fence", column.name) for column in self.columns)
        here = _COMMA.join(_of_table(column) for column in self.columns)
        return sql.SQL("({}) > ({})").format(here, last)


# A skip reads the index entries of one page and nothing else: four times faster than numbering every row.
_HOPPING = """
with recursive fence({keys}) as (
    (select {keys} from {table} order by {order} limit 1)
    union all
    select next.* from fence, lateral (
        select {keys} from {table} as master where {after} order by {order} offset {skip} limit 1
    ) as next
) select {keys} from fence
"""

_NUMBERING = """
select {keys} from (select {keys}, row_number() over (order by {order}) as number from {table}) as numbered
where (number - 1) % {every} = 0 order by {order}
"""


def _of_table(column: KeyColumn) -> sql.Composable:
    plain = sql.Identifier("master", column.name)
    return plain if column.ordered_by_bytes else sql.SQL('{} collate "C"').format(plain)


def _escaped(values: pa.Array) -> pa.Array:
    """Text as items of an array literal."""
    quoted = pc.replace_substring(values, pattern="\\", replacement="\\\\")
    quoted = pc.replace_substring(quoted, pattern='"', replacement='\\"')
    return pc.binary_join_element_wise('"', quoted, '"', "")


def storable(parts: Sequence[pa.Array]) -> pa.Array:
    """Which keys Postgres can store: text and literals must not contain NUL."""
    fine = pa.array([True] * len(parts[0]), pa.bool_())
    for part in parts:
        if pa.types.is_string(part.type):
            fine = pc.and_(fine, pc.invert(pc.match_substring(part, "\x00")))
    return fine

"""The supported SQL grammar, as an allow list: anything else is refused, so nothing is silently ignored.

Sqlglot parses far more than is supported here (samples, time travel, pivots, natural joins …), into arguments of nodes
that code for the supported ones would not read.
"""

from __future__ import annotations

from sqlglot import exp

from etl.correlate.adhoc.errors import QueryRefused
from etl.correlate.adhoc.query.place import refuse

MAX_CHARACTERS = 20_000
MAX_DEPTH = 100  # limit of nesting, so that recursion fits into the stack of every process
NAMES_REFUSED = frozenset(" ,;{}()\n\t\r=")  # in columns of a Delta table

_ALLOWED: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset(("expressions", "from_", "joins", "where", "group", "hint")),
    exp.From: frozenset(("this",)),
    exp.Table: frozenset(("this", "alias", "db", "catalog")),  # with a database, the stream is unknown
    exp.TableAlias: frozenset(("this",)),
    exp.Join: frozenset(("this", "on", "side", "kind", "using")),
    exp.Group: frozenset(("expressions",)),
    exp.Star: frozenset[str](),
    exp.Column: frozenset(("this", "table")),
    exp.Count: frozenset(("this", "big_int")),
    exp.Sum: frozenset(("this",)),
    exp.Avg: frozenset(("this",)),
    exp.Min: frozenset(("this",)),
    exp.Max: frozenset(("this",)),
    exp.Between: frozenset(("this", "low", "high")),
    exp.In: frozenset(("this", "expressions", "query", "unnest", "field")),  # the latter are refused as conditions
}
_WORDS: dict[tuple[type[exp.Expr], str], str] = {
    (exp.Join, "method"): "NATURAL and ASOF joins",
    (exp.Table, "sample"): "TABLESAMPLE",
    (exp.Table, "pivots"): "PIVOT",
    (exp.Table, "version"): "a version of a stream",
    (exp.Table, "joins"): "joins in parentheses",
    (exp.TableAlias, "columns"): "other names for a stream's columns",
    (exp.Star, "except_"): "* EXCEPT",
    (exp.Column, "db"): "a column's name of more than two parts",
    (exp.Count, "expressions"): "count of several columns",
    (exp.Select, "locks"): "FOR UPDATE",
    (exp.Select, "into"): "INTO",
}


def check_text(sql: str) -> None:
    """Refuse text that parser or database cannot handle."""
    if len(sql) > MAX_CHARACTERS:
        raise QueryRefused(f"the text has {len(sql):,} characters, {MAX_CHARACTERS:,} are allowed", 1, 1)
    for at, character in enumerate(sql):
        if character == "\0" or "\ud800" <= character <= "\udfff":
            before = sql[:at]
            column = at - (before.rfind("\n") + 1) + 1
            raise QueryRefused("the text holds a character that cannot be kept", before.count("\n") + 1, column)


def too_deep() -> QueryRefused:
    """The error for conditions that are nested too deeply."""
    return QueryRefused(f"conditions are nested more than {MAX_DEPTH} deep; IN takes many values at once", 1, 1)


def check_grammar(sql: str, select: exp.Select) -> None:
    """Refuse unsupported syntax."""
    level: list[exp.Expr] = [select]
    for _ in range(MAX_DEPTH):
        below: list[exp.Expr] = []
        for node in level:
            _check_node(sql, node)
            below.extend(node.iter_expressions())
        level = below
        if not level:
            return
    raise too_deep()


def _check_node(sql: str, node: exp.Expr) -> None:
    allowed = _ALLOWED.get(type(node))
    for name, value in node.args.items():
        if allowed is not None and name not in allowed and value:
            what = _WORDS.get((type(node), name), f"{name.strip('_').upper()} of {node.key.upper()}")
            place = node if next((n for n in node.walk() if "start" in n.meta), None) else None
            raise refuse(sql, place, f"{what} cannot be shared")


def check_name(sql: str, node: exp.Expr, name: str) -> None:
    """Refuse an output's name that a table cannot have."""
    if NAMES_REFUSED & set(name):
        raise refuse(
            sql, node, f"an output is named {name!r}; blanks and , ; {{ }} ( ) = cannot be in a table's column"
        )

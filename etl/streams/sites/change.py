"""Which changes of a declaration the existing files of a correlation over sites allow.

applied             formatting of the SQL, a smaller lateness, planning options
refused             everything else: the files at the sites belong to the old query
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from etl.contract.correlations.sites import SiteCorrelation, SiteWindow
from etl.contract.words.types import declared_name
from etl.streams.sites.query import site_query
from etl.streams.state.change import CorrelationChanged, normal_sql
from etl.streams.tasks.plan import microseconds

if TYPE_CHECKING:
    from etl.streams.declared import Catalog

_FIXED = ("sql", "windows", "target", "sites", "types")


def declaration(declared: SiteCorrelation, catalog: Catalog) -> dict[str, Any]:
    """A correlation over sites as plain values that can be compared."""
    query = site_query(declared, catalog.streams, catalog.sites.found)
    used = {f"{one.name}.{column}": one.schema.field(column).type for one in query.join.streams
            for column in one.columns}  # fmt: skip
    return {
        "sql": normal_sql(declared.sql),
        "aliases": [one.name for one in query.join.streams],
        "windows": {alias: _plain(declared.window(alias)) for alias in query.sql.sources},
        "lateness": microseconds(declared.lateness),
        "target": declared.target,
        "sites": {one.name: one.site for one in query.join.streams}
        | ({} if declared.target is None else {"": declared.target}),
        "types": {name: declared_name(kind) for name, kind in sorted(used.items())},
    }


def refuse_change(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises `CorrelationChanged` if the files at the sites do not allow the change."""
    for what in _FIXED:
        if before[what] != now[what]:
            raise CorrelationChanged(name, what, repr(before[what])[:60], repr(now[what])[:60])
    if now["lateness"] > before["lateness"]:
        raise CorrelationChanged(name, "lateness", f"{before['lateness'] / 1e6:g} s", f"{now['lateness'] / 1e6:g} s")


def _plain(window: SiteWindow | None) -> Any:
    assert window is not None, "every stream has a window"
    return {"tuples": window} if isinstance(window, int) else {"us": microseconds(window)}

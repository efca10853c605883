"""Secrets that values carry are not shown where a value is printed: in a log, an error or a debugger."""

from __future__ import annotations

import re

from etl.settings import PROJECT

_FIELD = re.compile(r"^    _?dsn: str$", re.MULTILINE)  # without `= field(repr=False)`


def test_a_dsn_in_a_dataclass_is_not_shown() -> None:
    assert [path.name for path in (PROJECT / "etl").rglob("*.py") if _FIELD.search(path.read_text())] == []

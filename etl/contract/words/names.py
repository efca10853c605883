"""The names that a file may use for its declarations.

Names become columns and tables in Delta and Postgres and words in SQL expressions, so they are plain identifiers. Names
that the warehouse uses itself are reserved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from etl.contract.errors import Mistake, TomlPath

LONGEST: Final = 48
LONGEST_COLUMN: Final = 63  # bytes of a name in Postgres
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*")
_COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

FACT_COLUMNS: Final = ("extra", "batch", "landed_at")
VERSION_COLUMNS: Final = ("valid_from", "valid_to", "is_current")
MART_COLUMNS: Final = ("batch", "landed_at", "loaded_at")
RESERVED_FIELDS: Final = frozenset(
    (*FACT_COLUMNS, *MART_COLUMNS, "payload_hash", "key_lo", "key_hi", "reasons", "raw", "raw_text", "source_file",
     "line", "decided_at", "from_backlog", "route")
)  # fmt: skip
RESERVED_PIPELINES: Final = frozenset(("masters", "schema", "streams"))
"""Folders and files of ours; ids of DAGs are in `dag_ids`."""
RESERVED_STREAMS: Final = frozenset(
    ("master_data", "maintenance", "masters", "schema", "streams", "correlations", "digest", "benchmark", "log")
)
RESERVED_MASTERS: Final = frozenset(("date", "master", "stream", "fact", "mart"))
RESERVED_REASONS: Final = frozenset(
    ("line_too_long", "bad_utf8", "malformed_json", "malformed_csv", "malformed_parquet", "conflicting_payload")
)


def plain(path: TomlPath, what: str, name: str, reserved: frozenset[str] = frozenset()) -> Iterator[Mistake]:
    """Complains unless the name is a plain identifier that is free."""
    if not _PLAIN.fullmatch(name) or len(name) > LONGEST:
        allowed = f"small letters, digits and _, not a digit first, at most {LONGEST} characters"
        yield Mistake(path, f"{name!r} cannot be the name of {what}; allowed are {allowed}")
    elif name in reserved:
        taken = ", ".join(sorted(reserved))
        yield Mistake(path, f"{name!r} cannot be the name of {what}: reserved are {taken}")


def column(path: TomlPath, name: str) -> Iterator[Mistake]:
    """Complains unless the name can be a column of a master."""
    if not _COLUMN.fullmatch(name) or len(name) > LONGEST_COLUMN:
        yield Mistake(
            path,
            f"{name!r} cannot be a column of a master; allowed are letters, digits and _, not a digit first, "
            f"at most {LONGEST_COLUMN} characters",
        )

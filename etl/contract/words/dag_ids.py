"""The DAG ids of an installation: a pipeline's name, the ids that we ship, and `broken_…` for a file with mistakes.

    visits.toml, name = "visits"    visits
    visits backup.toml, not TOML    broken_visits_backup

Airflow knows a DAG by its id, so these kinds must never meet: no pipeline may have a name of the last two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Final

from etl.contract.errors import Mistake, TomlPath
from etl.contract.words import names

SHIPPED: Final = frozenset(
    ("backlog", "benchmark", "correlations", "correlations_broken", "digest", "held", "maintenance", "master_data",
     "quarantine", "query")
)  # fmt: skip
BROKEN: Final = "broken_"
_UNSUITABLE: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST: Final = 200  # characters of an id; Airflow's bound is 250


def broken_ids(files: Iterable[str]) -> list[str]:
    """The DAG ids of files with mistakes, by their names; all different, whatever characters the names have."""
    found: list[str] = []
    for file in files:
        stem = _UNSUITABLE.sub("_", PurePath(file).stem)[:_LONGEST]
        wanted, number = f"{BROKEN}{stem}", 2
        while wanted in found:
            wanted, number = f"{BROKEN}{stem}_{number}", number + 1
        found.append(wanted)
    return found


def pipeline_name(path: TomlPath, name: str) -> Iterator[Mistake]:
    """Complains unless a pipeline's name is plain, and not the id of another DAG or one that it could have."""
    yield from names.plain(path, "a pipeline", name, names.RESERVED_PIPELINES | SHIPPED)
    if name.startswith(BROKEN):
        sentence = f"ids that begin with {BROKEN!r} are those of files with mistakes; give it another name"
        yield Mistake(path, f"{name!r} cannot be the name of a pipeline: {sentence}")

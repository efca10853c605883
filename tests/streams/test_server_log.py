"""The shipped example of documents: what the nested loop finds in generated server logs is in the table, once."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from etl import settings as configuration
from etl.samples.documents.landing import land_server_log
from etl.streams.steps import CorrelationSteps
from etl.streams.tasks.in_process import InProcess
from tests.support.stream_site import quiet

WINDOW_MS = 60_000


def test_failed_logins_and_file_accesses_of_the_same_user_host_or_address_are_found(
    tmp_path: Path, database: str
) -> None:
    own = configuration.load(home=tmp_path, postgres_dsn=database)
    steps = CorrelationSteps(own, database, InProcess())
    seen: list[dict[str, Any]] = []
    for path in land_server_log(own.var / "landing", datetime.now(UTC) - timedelta(minutes=5), 400, 3, seed=4):
        seen += [json.loads(line) for line in path.read_bytes().splitlines()]
        steps.run("micro_batch", "test", None, quiet)
    table = DeltaTable(str(own.warehouse / "correlations" / "server_log_links" / "results")).to_pyarrow_table()
    found = Counter(_items(json.loads(text)) for text in table.column("merged").to_pylist())
    assert found == truth(seen)
    suspicious = [dict(pair) for pair in found if {"Reason", "File"} <= {name for name, _ in pair}]
    assert suspicious, "somebody failed to log in and opened a file"


def truth(documents: list[dict[str, Any]]) -> Counter[frozenset[tuple[str, Any]]]:
    found: Counter[frozenset[tuple[str, Any]]] = Counter()
    for position, one in enumerate(documents):
        for other in documents[:position]:
            common = (one.keys() & other.keys()) - {"time"}
            together = one["time"] // WINDOW_MS == other["time"] // WINDOW_MS
            if together and common and all(one[name] == other[name] for name in common):
                found[_items({**other, **one})] += 1
    return found


def _items(document: dict[str, Any]) -> frozenset[tuple[str, Any]]:
    return frozenset((name, value) for name, value in document.items() if name != "time")

"""A site with two correlations over the streams `l` and `r`, and what its tables must hold after so many batches."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from etl.streams.tasks.in_process import InProcess
from tests.support.correlate_histories import at
from tests.support.stream_site import StreamSite


def make(tmp_path: Path, dsn: str, **options: Any) -> StreamSite:
    site = StreamSite.under(tmp_path, dsn, InProcess())
    wide = {"within": "30 seconds", "lateness": "5 seconds", **options}
    site.declare("pairs", "select l.id as a, r.id as b from l join r on l.k = r.k", **wide)
    site.declare("sums", "select l.k, count(*) as n from l join r on l.k = r.k group by l.k", **wide)
    return site


def land(site: StreamSite, batch: int) -> None:
    """Pairs within the batch and with the one before, a late tuple and a broken line."""
    left = [{"id": 100 * batch + i, "k": i % 3, "t": at(20 * batch + i)} for i in range(6)]
    right: list[Any] = [{"id": 100 * batch + 50 + i, "k": i % 3, "t": at(20 * batch + i)} for i in range(6)]
    late = {"id": 999, "k": 1, "t": at(-1000)}
    site.land("l", str(batch), left)
    site.land("r", str(batch), [*right, b"{", *([late] if batch else [])])


def truth(batches: int) -> Counter[tuple[int, int]]:
    left = [(100 * b + i, i % 3, 20 * b + i) for b in range(batches) for i in range(6)]
    right = [(100 * b + 50 + i, i % 3, 20 * b + i) for b in range(batches) for i in range(6)]
    return Counter((a, b) for a, k, s in left for b, j, t in right if k == j and abs(s - t) <= 30)


def check(site: StreamSite, batches: int) -> None:
    assert Counter((row["a"], row["b"]) for row in site.table("pairs").to_pylist()) == truth(batches)
    expected = Counter(a % 100 % 3 for (a, _), n in truth(batches).items() for _ in range(n))
    assert dict(site.rows("select k, n from correlation.sums")) == expected
    assert site.table("pairs", "late").num_rows == batches - 1
    assert site.quarantine("r").num_rows == batches

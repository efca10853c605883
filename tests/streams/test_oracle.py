"""Every condition × window × routing, end to end: what the tables hold is what the nested loop over all rows says."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from etl.streams import microbatch
from etl.streams.tasks.in_process import InProcess
from tests.support.correlate_histories import CONDITIONS, EPOCH, SECOND, WINDOWS, History, nested_loop, on_time
from tests.support.stream_site import StreamSite

LATENESS_S = 2
ROUTINGS: tuple[dict[str, Any], ...] = (
    {"routing": "auto", "units": 2},
    {"routing": "random", "units": [2, 1]},
    {"routing": "hash", "units": [3, 2]},
    {"routing": "contrand", "units": [4, 3], "subgroups": [2, 3]},
)


def history(seed: int, batches: int, streams: str, most: int = 14) -> History:
    """Few values, so that tuples meet; NULLs, repeated and late tuples, empty batches among them."""
    draw = np.random.default_rng(seed)
    number, made = 0, []
    for batch in range(batches):
        content: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        for stream in streams:
            rows = []
            for _ in range(0 if draw.random() < 0.15 else int(draw.integers(1, most))):
                number += 1
                rows.append((0, tuple_of(draw, number, batch * 3)))
            content[stream] = [*rows, (0, {**rows[0][1]})] if rows and draw.random() < 0.3 else rows
        made.append(content)
    return History(made)


def tuple_of(draw: np.random.Generator, number: int, around: int) -> dict[str, Any]:
    def some(*values: Any) -> Any:
        return values[int(draw.integers(0, len(values)))]

    tenths = some(None, *range(-4, 5))
    seconds = max(0, around - some(0, 0, 0, 1, 3, 9)) + some(0, 1, 2, 3) / 2
    return {
        "id": number,
        "k": some(None, *range(-4, 5)),
        "s": some(None, "a", "b", "B", ""),
        "x": some(None, *range(-4, 5)),
        "d": None if tenths is None else Decimal(tenths) / 10 * some(1, 10),
        "f": some(None, 0.0, 0.1, 0.2, 0.30000000000000004, -1.5),
        "t": EPOCH + dt.timedelta(seconds=seconds),
    }


def land(site: StreamSite, number: int, batch: dict[str, list[tuple[int, dict[str, Any]]]]) -> None:
    """Two files per stream, so that there are several dispatchers."""
    for stream, rows in batch.items():
        half = len(rows) // 2
        site.land(stream, f"{number}a", [row for _, row in rows[:half]])
        site.land(stream, f"{number}b", [row for _, row in rows[half:]])


@pytest.fixture
def site(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> StreamSite:
    monkeypatch.setattr(microbatch, "_TASK_BYTES", 300)
    return StreamSite.under(tmp_path, database, InProcess(slots=3))


def found(site: StreamSite, name: str) -> Counter[tuple[int, int]]:
    return Counter((row["a"], row["b"]) for row in site.table(name).to_pylist())


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_pair_is_in_the_table_once_whatever_condition_window_and_routing(site: StreamSite, seed: int) -> None:
    expected: dict[str, tuple[str, str]] = {}
    routing = cycle(ROUTINGS[seed:] + ROUTINGS[:seed])
    for number, (condition, (sql, _)) in enumerate(CONDITIONS.items()):
        for window, (within, extra, _) in list(WINDOWS.items())[(number + seed) % 2 :: 2]:  # all of them in two seeds
            options = next(routing)
            if "=" not in sql.replace("<=", "").replace(">=", ""):
                options = {"routing": "auto", "units": options["units"]}
            name = f"{condition} {window}".replace(" ", "_").replace("-", "_")
            length = None if within is None else f"{within // SECOND}s"
            query = f"select l.id as a, r.id as b from l join r on {sql}{extra}"
            site.declare(name, query, within=length, lateness=f"{LATENESS_S}s", **options)
            expected[name] = condition, window
    assert site.steps.check() == ()
    past = history(seed, 4, "lr")
    for number, batch in enumerate(past.batches):
        land(site, number, batch)
        site.run()
    kept = on_time(past, LATENESS_S * SECOND)
    left, right = ([row for batch in kept for row in batch[stream]] for stream in "lr")
    for name, (condition, window) in expected.items():
        truth = nested_loop(left, right, CONDITIONS[condition][1], WINDOWS[window][2])
        assert found(site, name) == truth, name
    sliding = next(name for name in expected if name.endswith("sliding"))
    late = sum(len(batch[stream]) for batch in past.batches for stream in "lr") - len(left) - len(right)
    assert late, "some tuples are late"
    assert site.table(sliding, "late").num_rows == late


def test_three_streams_distinct_and_groups_agree_with_the_nested_loop(site: StreamSite) -> None:
    join = "from l join r on l.k = r.k join u on u.x = r.x"
    wide = {"within": "4 seconds", "lateness": "2 seconds"}
    site.declare("triples", f"select l.id as a, r.id as b, u.id as c {join}", **wide)
    site.declare("kinds", f"select distinct l.k, r.x, u.s {join}", units=3, **wide)
    site.declare("sums", f"select r.x, count(*) as n, count(u.f) as known, sum(l.d) as total, avg(l.d) as mean, "
                 f"min(u.f) as least, max(l.s) as most {join} group by r.x", **wide)  # fmt: skip
    site.declare("all", f"select count(*) as n, avg(l.k) as mean {join}", **wide)
    past = history(7, 6, "lru")
    for number, batch in enumerate(past.batches):
        land(site, number, batch)
        site.run()
        triples = _triples(on_time(History(past.batches[: number + 1]), LATENESS_S * SECOND))
        if triples:
            assert site.rows("select n from correlation.all") == [(len(triples),)], "after every batch"
    assert Counter((row["a"], row["b"], row["c"]) for row in site.table("triples").to_pylist()) == Counter(
        (a["id"], b["id"], c["id"]) for a, b, c in triples
    )
    kinds = [(row["k"], row["x"], row["s"]) for row in site.table("kinds").to_pylist()]
    assert len(kinds) == len(set(kinds))
    assert set(kinds) == {(a["k"], b["x"], c["s"]) for a, b, c in triples}
    columns = "x, n, known, total, mean, least, most"
    assert site.rows(f"select {columns} from correlation.sums order by x") == _sums(triples)


Triple = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def _triples(kept: list[dict[str, list[dict[str, Any]]]]) -> list[Triple]:
    left, right, other = ([row for batch in kept for row in batch[stream]] for stream in "lru")
    apart = dt.timedelta(seconds=4)
    return [
        (a, b, c)
        for a in left
        for b in right
        if a["k"] is not None and a["k"] == b["k"] and abs(a["t"] - b["t"]) <= apart
        for c in other
        if c["x"] is not None and c["x"] == b["x"] and abs(a["t"] - c["t"]) <= apart and abs(b["t"] - c["t"]) <= apart
    ]


def _sums(triples: list[Triple]) -> list[tuple[Any, ...]]:
    rows = []
    for x in sorted({b["x"] for _, b, _ in triples}):
        own = [(a, c) for a, b, c in triples if b["x"] == x]
        d = [a["d"] for a, _ in own if a["d"] is not None]
        f = [c["f"] for _, c in own if c["f"] is not None]
        s = [a["s"] for a, _ in own if a["s"] is not None]
        mean = (sum(d, Decimal(0)) / len(d)).quantize(Decimal("0.000001")) if d else None
        rows.append((x, len(own), len(f), sum(d, Decimal(0)) if d else None, mean, min(f, default=None),
                     max(s, default=None)))  # fmt: skip
    return rows


@pytest.mark.parametrize("within", ["4s", None], ids=["window", "full history"])
def test_units_come_and_go_in_the_middle_and_no_pair_is_lost_or_doubled(site: StreamSite, within: str | None) -> None:
    query = "select l.id as a, r.id as b from l join r on l.k = r.k"
    site.declare("small", query, within=within, lateness="2s", routing="random", units=1, capacity="512B")
    past, events = history(11, 12, "lr", most=40), []
    for number, batch in enumerate(past.batches):
        if number == 8 and within:  # nothing but small batches from now on
            batch = {stream: rows[:1] for stream, rows in batch.items()}
            past.batches[number] = batch
        land(site, number, batch)
        told = site.run()
        events += told["correlations"]["small"]["scaling"] if told["batch"] else []
    kept = on_time(past, LATENESS_S * SECOND)
    left, right = ([row for batch in kept for row in batch[stream]] for stream in "lr")
    window = WINDOWS["sliding" if within else "full history"][2]
    assert found(site, "small") == nested_loop(left, right, CONDITIONS["equality"][1], window)
    assert any(event["added"] for event in events), "units were added"


def test_a_stream_may_meet_itself(site: StreamSite) -> None:
    site.declare("twins", "select a.id as a, b.id as b from l a join l b on a.k = b.k and a.id < b.id", within="4s")
    site.declare("selves", "select a.id as a, b.id as b from l a join l b on a.k = b.k", units=3, routing="hash")
    past = history(5, 4, "l", most=30)
    for number, batch in enumerate(past.batches):
        land(site, number, batch)
        site.run()
    rows = [row for batch in on_time(past, 0) for row in batch["l"]]
    equal, sliding = CONDITIONS["equality"][1], WINDOWS["sliding"][2]
    twins = nested_loop(rows, rows, lambda a, b: equal(a, b) and a["id"] < b["id"], sliding)
    assert found(site, "twins") == twins
    assert found(site, "selves") == nested_loop(rows, rows, equal, lambda _: True)

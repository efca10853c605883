"""Surrogate keys: the same from a fact and from its dimension, other for other versions, NULL without a natural key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from etl.contract.model import Master
from etl.pipeline.tasks.surrogate import fact_key, surrogate_key

ON = (("host", "host"), ("country", "country"))
T0 = datetime(2026, 11, 1, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")


def test_a_fact_has_the_key_of_the_version_it_was_enriched_with() -> None:
    master = Master("site", "postgres", "web.sites", ON, ("team",), version="updated_at", history="scd2")
    hosts, countries = pa.array(["a", "a", None]), pa.array(["CH", "CH", "DE"])
    times = pa.array([T0, T0 + timedelta(microseconds=1), T0], TIME)
    rows = pa.table({"host": hosts, "country": countries, "site.updated_at": times})
    keys = fact_key(rows, master).to_pylist()
    assert keys == surrogate_key([hosts, countries, times]).to_pylist()
    assert keys[0] != keys[1]
    assert keys[2] is None
    scd1 = Master("site", "postgres", "web.sites", ON, ("team",))
    assert len(set(fact_key(rows, scd1).to_pylist()[:2])) == 1, "scd1 knows no versions"


def test_the_key_does_not_depend_on_how_wide_a_type_is_or_how_rows_are_cut() -> None:
    narrow, wide = pa.array([1, 2, 3], pa.int32()), pa.array([1, 2, 3], pa.int64())
    assert surrogate_key([narrow]) == surrogate_key([wide])
    assert surrogate_key([wide.slice(1, 1)]).to_pylist() == surrogate_key([wide]).to_pylist()[1:2]
    coarse = pa.array([T0], pa.timestamp("ms", "UTC"))
    assert surrogate_key([coarse]) == surrogate_key([coarse.cast(TIME)])


def test_parts_do_not_run_into_each_other() -> None:
    one = surrogate_key([pa.array(["ab", "a"]), pa.array(["c", "bc"])])
    assert len(set(one.to_pylist())) == 2

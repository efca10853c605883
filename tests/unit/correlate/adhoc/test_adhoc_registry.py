"""Names, owners, quotas, windows, expiry: every refusal leaves the registry as it was."""

from __future__ import annotations

import json
import pickle
from datetime import datetime, timedelta

import pytest

from etl.correlate.adhoc.errors import (
    NameInUse,
    NameRefused,
    NotTheOwner,
    QueryRefused,
    QuotaExceeded,
    UnknownQuery,
    WindowRefused,
)
from etl.correlate.adhoc.query.registry import Limits, Record, Registry
from tests.unit.correlate.adhoc.oracle import STREAMS

SQL = "select count(*) from V, W where V.vid = W.vid"
NOW = datetime(2026, 11, 17, 12)
LIMITS = Limits(slot=timedelta(seconds=10), retention=timedelta(minutes=5), queries=3, queries_per_owner=2)


def create(registry: Registry, name: str = "a", **changes: object) -> Registry:
    given = {"sql": SQL, "within": timedelta(minutes=1), "owner": "ann", "now": NOW, "streams": STREAMS, **changes}
    return registry.create(name, **given)[0]  # type: ignore[arg-type]


def test_a_query_is_created_with_its_window_in_slots() -> None:
    registry, query = Registry(limits=LIMITS).create("a", SQL, timedelta(minutes=1), "ann", NOW, STREAMS)
    assert query.window == 6
    assert registry.records["a"].expires_at == NOW + LIMITS.longest_life
    assert registry.query("a", STREAMS) == query


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"within": timedelta(minutes=6)}, WindowRefused, "longer than the 0:05:00 for which tuples are retained"),
        ({"within": timedelta(seconds=15)}, WindowRefused, "not a whole number of slots of 0:00:10"),
        ({"within": timedelta(0)}, WindowRefused, "not a whole number of slots"),
        ({"name": "A b"}, NameRefused, "'A b' is not allowed"),
        ({"name": "taken"}, NameInUse, "'taken' exists already and belongs to ann"),
        ({"sql": "select nope from V, W where V.vid = W.vid"}, QueryRefused, "line 1, column 8"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_and_creates_nothing(
    changes: dict[str, object], error: type[Exception], words: str
) -> None:
    registry = create(Registry(limits=LIMITS), "taken")
    with pytest.raises(error, match=words.replace("(", r"\(")) as refusal:
        create(registry, **changes)  # type: ignore[arg-type]
    assert list(registry.records) == ["taken"]
    assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)


def test_quotas_hold_per_owner_and_for_all() -> None:
    registry = create(create(Registry(limits=LIMITS), "a"), "b")
    with pytest.raises(QuotaExceeded, match="number 3 of ann's queries, 2 are allowed"):
        create(registry, "c")
    registry = create(registry, "c", owner="bob")
    with pytest.raises(QuotaExceeded, match="number 4 of all queries, 3 are allowed"):
        create(registry, "d", owner="cid")


def test_only_the_owner_or_an_administrator_deletes() -> None:
    registry = create(Registry(limits=LIMITS))
    with pytest.raises(NotTheOwner, match="belongs to ann, not to bob"):
        registry.delete("a", by="bob")
    assert not registry.delete("a", by="bob", admin=True).records
    assert not registry.delete("a", by="ann").records
    with pytest.raises(UnknownQuery, match="no query is named 'x'"):
        registry.delete("x", by="ann")


def test_a_query_expires_and_lives_no_longer_than_allowed() -> None:
    registry = create(create(Registry(limits=LIMITS), "a", life=timedelta(hours=1)), "b", life=timedelta(days=400))
    assert registry.expired(NOW + timedelta(hours=1)) == ["a"]
    assert list(registry.without_expired(NOW + timedelta(hours=1)).records) == ["b"]
    assert registry.records["b"].expires_at == NOW + LIMITS.longest_life


def test_a_suspended_query_keeps_its_reason_until_it_is_resumed() -> None:
    registry = create(Registry(limits=LIMITS)).suspend("a", "its table is gone")
    assert (registry.records["a"].state, registry.records["a"].reason) == ("suspended", "its table is gone")
    assert registry.resume("a").records["a"].reason == ""


def test_a_record_survives_json() -> None:
    record = create(Registry(limits=LIMITS)).suspend("a", "x").records["a"]
    assert Record.from_data(json.loads(json.dumps(record.as_data()))) == record

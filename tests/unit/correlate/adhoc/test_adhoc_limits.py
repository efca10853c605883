"""Windows of queries are whole slots within what is retained; refusals say why, and cross processes."""

from __future__ import annotations

import pickle
from datetime import timedelta

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
from etl.correlate.adhoc.query.limits import Limits, window_slots

LIMITS = Limits(slot=timedelta(seconds=10), retention=timedelta(minutes=5))


def test_a_window_is_counted_in_slots() -> None:
    assert window_slots("a", timedelta(minutes=1), LIMITS) == 6


@pytest.mark.parametrize(
    ("within", "words"),
    [
        (timedelta(minutes=6), "longer than the 0:05:00 for which tuples are retained"),
        (timedelta(seconds=15), "not a whole number of slots of 0:00:10"),
        (timedelta(0), "not a whole number of slots"),
    ],
)
def test_a_window_that_cannot_be_kept_is_refused(within: timedelta, words: str) -> None:
    with pytest.raises(WindowRefused, match=words):
        window_slots("a", within, LIMITS)


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (NameRefused("A b"), "'A b' is not allowed"),
        (NameInUse("taken", "ann"), "'taken' exists already and belongs to ann"),
        (QuotaExceeded("c", "ann's queries", 2, 2), "number 3 of ann's queries, 2 are allowed"),
        (NotTheOwner("a", "ann", "bob"), "belongs to ann, not to bob"),
        (UnknownQuery("x"), "no query is named 'x'"),
        (WindowRefused("a", "0:06:00", "is too long"), "0:06:00 is too long"),
    ],
)
def test_a_refusal_says_what_and_crosses_processes(refusal: QueryRefused, words: str) -> None:
    assert words in str(refusal)
    assert str(pickle.loads(pickle.dumps(refusal))) == str(refusal)

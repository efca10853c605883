from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl import errors
from etl.errors import TerminalError
from etl.model import BatchCounts, BatchId, JoinCounts

batches = st.builds(BatchId, st.integers(0, 10**9), st.integers(0, 999_998))  # the last retry has none after it


@given(batches)
def test_a_batch_survives_its_number_and_its_name(batch: BatchId) -> None:
    assert BatchId.of(batch.number) == batch
    assert BatchId.parse(str(batch)) == batch


@given(batches, batches)
def test_batches_order_as_their_numbers_do(one: BatchId, other: BatchId) -> None:
    assert (one < other) == (one.number < other.number)
    assert one < one.after() < BatchId(one.sequence + 1)


def test_a_batch_has_room_for_a_million_tries_and_says_so_when_they_are_used_up() -> None:
    with pytest.raises(TerminalError, match=r"batch 7\.999999 leaves no number"):
        BatchId(7, 999_999).after()


@pytest.mark.parametrize("text", ["", "x", "1.", "-1", "1.2.3", "1e3", "٣"])
def test_what_is_no_batch_is_refused_with_a_sentence(text: str) -> None:
    if text in ("1.", "٣"):  # a trailing point is harmless, and so are other scripts' digits
        assert str(BatchId.parse(text)) in ("1", "3")
        return
    with pytest.raises(TerminalError, match="is not a batch; batches look like 12 or"):
        BatchId.parse(text)


def test_counts_survive_the_ledger() -> None:
    counts = BatchCounts(landed=3, accepted=2, quarantined=1, reasons={"x": 1}, joins={"customer": JoinCounts(2, 1, 0)})
    assert BatchCounts.from_json(counts.as_json()) == counts


def test_counts_that_lose_a_line_are_refused() -> None:
    with pytest.raises(AssertionError, match="a line was lost or decided twice"):
        BatchCounts(landed=3, accepted=2)


@pytest.mark.parametrize(
    "error",
    [
        errors.Busy("somebody"),
        errors.MasterUnavailable("master.customers"),
        errors.PostgresUnavailable("db:5432", "refused"),
        errors.GateFailed("12.1", ("expect_x",), "docs/index.html"),
        errors.PortTaken(8080, "FRONTSTAGE_AIRFLOW_PORT"),
        errors.MissingPart("no Java", "install it"),
    ],
)
def test_errors_cross_processes_whole(error: errors.FrontstageError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)

"""Documents within bounds: what a result keeps, constants, bounds of results and of memory."""

from __future__ import annotations

import datetime as dt
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from etl.adapters.delta.data_files import write_part
from etl.adapters.ledger import DataFile
from etl.cli.correlations.documents_text import document_plan_lines
from etl.correlate.documents.errors import JoinerBudgetExceeded
from etl.pipeline.tasks.wire import WorkerFailed
from etl.streams import microbatch
from etl.streams.documents import results
from etl.streams.state.change import CorrelationChanged
from etl.streams.tasks.in_process import InProcess
from tests.support.correlate_histories import EPOCH
from tests.support.document_site import DocumentSite, seconds


@pytest.fixture
def site(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> DocumentSite:
    monkeypatch.setattr(microbatch, "_TASK_BYTES", 400)
    return DocumentSite.under(tmp_path, database, InProcess(slots=3))


def test_a_result_holds_the_merged_document_and_what_else_is_to_be_kept(site: DocumentSite) -> None:
    keep = ["left", "right", "merged"]
    site.declare("links", documents={"stream": "logs", "window": "1 minute", "keep": keep})
    first = {"time": seconds(0), "User": "u1", "n": {"id": 1}, "x": [1, 2.0], "none": None}
    second = {"time": (EPOCH + dt.timedelta(seconds=1)).isoformat(), "User": "u1", "File": "/a b"}
    site.land("a", [first, second, {"time": seconds(2), "User": 1}])
    site.run()
    (row,) = site.table("links").to_pylist()
    assert json.loads(row["left"]) == first
    assert json.loads(row["right"]) == second
    assert json.loads(row["merged"]) == {"User": "u1", "x[0]": 1, "x[1]": 2, "File": "/a b"}
    assert (row["left_time"], row["right_time"]) == (EPOCH, EPOCH + dt.timedelta(seconds=1))
    assert (row["batch"], row["left_id"] < row["right_id"]) == (1, True)


@pytest.mark.parametrize("keep", [["merged"], ["left", "right"]])
def test_results_are_written_while_they_are_made_and_named_when_all_are(
    site: DocumentSite, keep: list[str], peak: Callable[[], int]
) -> None:
    documents = {"stream": "logs", "window": "1 minute", "partitions": 1, "keep": keep}
    site.declare("links", documents=documents)
    site.land("a", [{"time": seconds(i / 10), "User": "u1", "x": {str(i): f"{i:05d}" * 8000}} for i in range(100)])
    figures = site.run()["correlations"]["links"]
    assert peak() < 250 << 20, "4,950 results of 80 KB are 380 MiB"
    assert figures["rows"] == site.table("links").select(["left_id"]).num_rows == 100 * 99 // 2
    names = [file.name for file in (site.under_it.settings.warehouse / "correlations/links/results").glob("*.parquet")]
    assert 6 <= len(set(names)) <= 7
    assert len(set(zip(*site.table("links").select(["left_id", "right_id"]).to_pydict().values(), strict=True))) == 4950


def test_a_task_that_fails_between_two_files_has_named_neither(
    site: DocumentSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_PART_BYTES", 1)
    monkeypatch.setattr(results, "_BLOCK_BYTES", 1 << 10)
    site.declare("links", documents={"stream": "logs", "window": "1 minute", "partitions": 1})
    site.land("a", [{"time": seconds(i), "User": "u1", "x": {str(i): i}} for i in range(20)])
    written = []

    def fails(root: Path, table: str, name: str, rows: pa.Table) -> DataFile:
        written.append(name)
        if len(written) == 3:
            raise OSError(28, "no space")
        return write_part(root, table, name, rows)

    with monkeypatch.context() as patch:
        patch.setattr(results, "write_part", fails)
        with pytest.raises(Exception, match="no space"):
            site.run()
    site.run()
    table = site.table("links").select(["left_id", "right_id"])
    assert len(set(zip(*table.to_pydict().values(), strict=True))) == table.num_rows == 20 * 19 // 2


@pytest.fixture
def peak() -> Iterator[Callable[[], int]]:
    """What was held at once since the test began: by Arrow, and by everything else in Python."""
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    _POOLS.append(pool)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    yield lambda: pool.max_memory() + tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    pa.set_memory_pool(before)


_POOLS: list[pa.MemoryPool] = []  # arrays may outlive a test


def test_results_beyond_the_bound_are_counted_and_told(site: DocumentSite) -> None:
    site.declare("links", documents={"stream": "logs", "window": "1 minute", "partitions": 2, "max_pairs": 100})
    kept = 0
    for batch in range(2):
        site.land(str(batch), [{"time": seconds(i), "User": "u1", "i": {str(i): batch}} for i in range(20)])
        figures = site.run()["correlations"]["links"]
        kept += figures["rows"]
        assert figures["pairs"] - figures["rows"] == figures["documents"]["cut"]
    assert kept == site.table("links").num_rows == 100, "all are at one of two joiners, which has the whole bound"
    ids = site.table("links").select(["left_id", "right_id"]).to_pylist()
    assert len({(row["left_id"], row["right_id"]) for row in ids}) == 100
    (window,) = figures["documents"]["windows"]
    joinable = 40 * 39 // 2 - 20  # less those that have another value at one place
    assert (window["found"], window["cut"]) == (joinable, joinable - kept)


@pytest.mark.parametrize("window", [{"window": "60 seconds"}, {"window": "12 seconds", "slide": "4 seconds"}])
def test_no_pair_is_cut_before_the_bound_of_its_window_is_reached(site: DocumentSite, window: dict[str, str]) -> None:
    site.declare("links", documents={"stream": "logs", "partitions": 8, "max_pairs": 150, "theta": 0.0, **window})
    draw, past = np.random.default_rng(3), []
    for batch in range(4):  # one user has nearly all pairs
        rows = [{"n": {"id": 100 * batch + i}, "User": f"u{0 if i < 14 else i}", f"x{i % 20}": batch,
                 "time": seconds(6 * batch + float(draw.random()) * 4)} for i in range(40)]  # fmt: skip
        past.append(rows)
        site.land(str(batch), rows)
        figures = site.run()["correlations"]["links"]
        for one in figures["documents"]["windows"]:
            assert one["found"] - one["cut"] == min(one["found"], 150)
        assert figures["rows"] == sum(site.table("links").column("batch").to_numpy() == batch + 1)
    made, every = site.pairs("links"), site.truth(past, window)
    assert made <= every
    assert made != every, "the bound is reached, or this shows nothing"


def test_an_attribute_that_joins_everything_is_reported(site: DocumentSite) -> None:
    site.declare("links", documents={"stream": "logs", "window": "1 minute"})
    site.land("a", [{"time": seconds(i / 10), "version": 3, "i": i} for i in range(200)])
    assert site.run()["correlations"]["links"]["documents"]["constants"] == ["version"]


def test_an_attribute_that_joins_everything_is_left_out_by_setting(site: DocumentSite) -> None:
    site.declare("links", documents={"stream": "logs", "window": "1 minute", "constants": "leave_out"})
    rows = [{"time": seconds(i / 10), "version": 3, "ticket": i // 2, "n": {"id": i}} for i in range(200)]
    site.land("a", rows[:150])
    told = site.run()["correlations"]["links"]["documents"]
    assert (told["constants"], told["left_out"]) == ([], ["version"])
    site.land("b", [*rows[150:], {**rows[0], "version": 4, "n": {"id": 200}}])
    site.run()
    expected = [(i, i + 1) for i in range(0, 200, 2)] + [(0, 200), (1, 200)]
    assert sorted(site.pairs("links")) == sorted(expected), "it stays left out, whatever its value"
    site.declare("links", documents={"stream": "logs", "window": "1 minute"})
    site.land("c", rows[:1])
    with pytest.raises(CorrelationChanged, match="cannot change constants from 'leave_out' to 'keep'"):
        site.run()


def shop(first: int, count: int, of_all: int = 1) -> list[dict[str, Any]]:
    """Documents that share nothing but `app`, which one of them lacks if `of_all` is 0."""
    rows: list[dict[str, Any]] = [
        {"time": seconds(i / 100), "app": "shop", f"u{i}": 1, "n": {"id": i}} for i in range(first, first + count)
    ]
    if not of_all:
        del rows[0]["app"]
    return rows


def test_constants_are_left_out_as_soon_as_enough_documents_were_seen(site: DocumentSite) -> None:
    site.declare("links", documents={"stream": "logs", "window": "1 minute", "constants": "leave_out"})
    site.land("a", shop(0, 60))
    figures = site.run()["correlations"]["links"]
    assert (figures["documents"]["left_out"], figures["documents"]["left_out_undecided"]) == ([], True)
    text = "\n".join(document_plan_lines(site.steps.explain("links")))
    assert "is left out once 100 documents were seen" in text
    assert figures["pairs"] == 60 * 59 // 2
    site.land("b", shop(60, 30))
    assert site.run()["correlations"]["links"]["documents"]["left_out_undecided"]
    site.land("c", [*shop(90, 300), {**shop(0, 1)[0], "n": {"id": 999}}])
    figures = site.run()["correlations"]["links"]
    assert (figures["documents"]["left_out"], figures["documents"]["left_out_undecided"]) == (["app"], False)
    assert figures["pairs"] == 1, "only the same user's documents still join"
    site.land("d", [{**shop(7, 1)[0], "app": "other", "n": {"id": 1000}}])
    assert site.run()["correlations"]["links"]["pairs"] == 1
    assert site.pairs("links")[7, 1000] == 1


def test_a_constant_with_an_exception_is_reported_and_not_left_out(site: DocumentSite) -> None:
    site.declare("links", documents={"stream": "logs", "window": "1 minute", "constants": "leave_out"})
    site.land("a", shop(0, 400, of_all=0))
    told = site.run()["correlations"]["links"]["documents"]
    assert (told["constants"], told["left_out"]) == (["app"], [])


def test_a_constant_is_reported_when_it_appears_and_no_more_when_it_has_gone(site: DocumentSite) -> None:
    site.declare("links", documents={"stream": "logs", "window": "1 second"})
    reported = []
    for batch, app in enumerate(({}, {"app": "shop"}, {"app": "shop"}, {})):
        site.land(str(batch), [{"time": seconds(batch + i / 200), "user": i, **app} for i in range(60 * (1 + batch))])
        reported.append(site.run()["correlations"]["links"]["documents"]["constants"])
    assert reported == [[], [], ["app"], []], "60 documents say nothing; 60 and 120 have it in 67 %"


def test_a_window_that_does_not_fit_a_joiner_is_a_sentence_and_a_larger_budget_goes_on(site: DocumentSite) -> None:
    small = {"stream": "logs", "window": "1 minute", "partitions": 1, "budget": "2KiB"}
    site.declare("links", documents=small)
    documents = [{"time": seconds(i), "User": 1, "n": {"id": i}} for i in range(30)]  # one user cannot be split
    site.land("a", documents)
    with pytest.raises((JoinerBudgetExceeded, WorkerFailed), match=r"which may use 2,048; raise the budget"):
        site.run()
    site.declare("links", documents={**small, "budget": "1MiB"})
    site.run()
    assert site.pairs("links") == site.truth([documents], {"window": "1 minute"})


def users(count: int, first: int = 0, at: float = 0.0) -> list[dict[str, Any]]:
    """Documents of a user each, within a second."""
    return [{"time": seconds(at + i / count), "User": first + i, "n": {"id": first + i}} for i in range(count)]


def test_a_first_window_that_does_not_fit_its_joiners_is_split_over_more(site: DocumentSite) -> None:
    site.declare("links", documents={"stream": "logs", "window": "1 minute", "partitions": 1, "budget": "64KiB"})
    documents = [*users(1000), *users(1000)]
    site.land("a", documents)
    site.run()
    assert site.steps.explain("links")["joiners"] > 1
    assert site.pairs("links") == site.truth([documents], {"window": "1 minute"})


def test_an_open_window_that_outgrows_its_joiners_is_told_what_helps(site: DocumentSite) -> None:
    options = {"stream": "logs", "window": "1 hour", "partitions": 2, "budget": "48KiB", "theta": 9.0}
    site.declare("links", documents=options)
    joiners: list[int] = []

    def grow() -> None:
        for batch in range(9):
            site.land(str(batch), users(120, 120 * batch))
            site.run()
            joiners.append(site.steps.explain("links")["joiners"])

    with pytest.raises((JoinerBudgetExceeded, WorkerFailed)) as refused:
        grow()
    assert len(joiners) > 2
    assert "raise the budget or shorten the window; more partitions help from the next window" in str(refused.value)
    assert set(joiners) == {2, 4}, "the window goes on by its first partitions, so it asks for more only once"
    site.declare("links", documents={**options, "budget": "1MiB"})
    site.run()
    assert site.steps.explain("links")["windows"][0]["documents"] == 120 * (len(joiners) + 1)


def test_more_partitions_help_from_the_next_window_on(site: DocumentSite) -> None:
    options = {"stream": "logs", "window": "10 seconds", "lateness": "1 minute", "theta": 9.0}
    lateness = {"lateness": options.pop("lateness")}
    site.declare("links", **lateness, documents={**options, "partitions": 2})
    past = [users(100), [*users(50, 100, 5), *users(50, 20, 11)], [*users(50, 150, 6), *users(50, 20, 12)]]
    for number, documents in enumerate(past):
        if number == 1:
            site.declare("links", **lateness, documents={**options, "partitions": 8})
        site.land(str(number), documents)
        site.run()
    first, second = site.steps.explain("links")["windows"]
    assert (first["versions"], second["versions"]) == ([0, 1], [1])
    assert second["maximal_load"] < 0.25 < 0.45 < first["maximal_load"]
    assert site.pairs("links") == site.truth(past, {"window": "10 seconds"}, lateness_s=60)


def test_a_joiner_near_its_budget_gets_half_of_its_documents_taken_away(site: DocumentSite) -> None:
    options = {"stream": "logs", "window": "5 seconds", "partitions": 2, "budget": "48KiB", "theta": 9.0}
    site.declare("links", documents=options)
    past = [[{"time": seconds(6 * batch + i / 100), "User": i, "n": {"id": 1000 * batch + i}} for i in range(count)]
            for batch, count in enumerate((100, 300, 300, 300))]  # fmt: skip
    joiners = []
    for number, documents in enumerate(past):
        site.land(str(number), documents)
        site.run()
        joiners.append(site.steps.explain("links")["joiners"])
    assert (joiners[0], joiners[-1]) == (2, 4)
    assert site.pairs("links") == site.truth(past, {"window": "5 seconds"})

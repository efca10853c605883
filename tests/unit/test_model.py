"""Words everybody shares: counts that add up and survive the ledger, errors that cross processes."""

from __future__ import annotations

import pickle

import pytest

from etl import errors
from etl.adapters.claims import ClaimsDamaged
from etl.adapters.delta.table import FilesMissing
from etl.adapters.ledger import Fenced
from etl.adapters.mart import MartTaken
from etl.model import BatchCounts, JoinCounts, LinesDoNotAddUp
from etl.pipeline.microbatch import InputRestless
from etl.pipeline.prepare import UnknownPipeline
from etl.pipeline.recover import NoteMissing


def test_counts_survive_the_ledger() -> None:
    counts = BatchCounts(lines=3, accepted=2, quarantined=1, reasons={"x": 1}, joins={"customer": JoinCounts(2, 1, 0)})
    assert BatchCounts.from_json(counts.as_json()) == counts


def test_events_that_waited_are_not_counted_as_lines_again() -> None:
    counts = BatchCounts(lines=5, accepted=3, quarantined=2, duplicates=1, backlog_added=1, backlog_resolved=2)
    assert counts.routed == counts.lines == 5


def test_what_several_tasks_joined_adds_up() -> None:
    assert JoinCounts(5, 3, 1) + JoinCounts(2, 0, 2) == JoinCounts(7, 3, 3)


@pytest.mark.parametrize(
    "error",
    [
        errors.Busy("somebody"),
        errors.MasterUnavailable("master.customers"),
        errors.PostgresUnavailable("db:5432", "refused"),
        errors.AuditFailed("orders", 12, ("expect_x",), "docs/index.html"),
        errors.PortTaken(8080, "FRONTSTAGE_AIRFLOW_PORT"),
        errors.MissingPart("no Java", "install it"),
        LinesDoNotAddUp("orders", 1, 3, 2),
        ClaimsDamaged("a.claims"),
        FilesMissing("fact", 1, ("a.parquet",)),
        Fenced("orders", "somebody"),
        InputRestless("orders", ("a.jsonl",)),
        MartTaken("orders", "sales", "is not ours"),
        NoteMissing("orders", 3, 2),
        UnknownPipeline("sales", ("orders",), "pipelines"),
    ],
)
def test_errors_cross_processes_whole(error: errors.FrontstageError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)

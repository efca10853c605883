"""A landing folder that cannot be listed stops its own pipeline with a sentence; all others go on."""

from __future__ import annotations

import errno
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from etl.adapters import ledger, postgres
from etl.adapters.unlistable import LandingAway, LandingShut, unlistable
from etl.cli import app
from etl.errors import TerminalError, TransientError
from etl.page.queries.overview import overview
from etl.page.verdict import verdict
from etl.pipeline.input.arrival import Arrival
from etl.pipeline.inspection.diagnosis import diagnose, gather
from etl.pipeline.prepare import Preparer
from etl.samples.examples import EXAMPLES
from tests.support import unreadable
from tests.support.site import Site, order


@contextmanager
def file_in_its_place(folder: Path) -> Iterator[None]:
    kept = folder.with_name(".kept")
    folder.rename(kept)
    folder.write_text("a file")
    yield
    folder.unlink()
    kept.rename(folder)


@contextmanager
def file_above_it(folder: Path) -> Iterator[None]:
    with file_in_its_place(folder.parent):
        yield


CAUSES = {
    "permissions": (unreadable.unlistable, TerminalError, "Permission denied", "chmod"),
    "a file": (file_in_its_place, TerminalError, "File exists", "take away what is in its place"),
    "a file above it": (file_above_it, TerminalError, "", "take away what is in its place"),
    "no answer": (
        lambda folder: unreadable.unlistable(folder, errno.ENOTCONN),
        TransientError,
        "Transport endpoint is not connected",
        "see that it is mounted",
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_run_says_in_a_sentence_why_and_the_next_one_goes_on(site: Site, cause: str) -> None:
    site.land("a.jsonl", order(1))
    site.run()
    site.land("b.jsonl", order(2))
    broken, kind, reason, remedy = CAUSES[cause]
    with broken(site.landing), pytest.raises(kind) as told:
        site.run()
    assert str(told.value).startswith(f"landing folder '{site.landing}' ")
    assert reason in str(told.value)
    assert remedy in str(told.value)
    assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)
    site.run()
    assert sorted(site.rows("fact")["order_id"].to_pylist()) == [1, 2]
    assert site.inventory().faults == []


def test_a_batch_that_is_loaded_stays_loaded_when_the_folder_cannot_be_listed_then(site: Site) -> None:
    site.land("a.jsonl", order(1))
    batch = site.decide()
    site.step("audit", batch)
    with unreadable.unlistable(site.landing):
        assert site.step("publish", batch)["state"] == "loaded"
    assert site.run() is None
    assert site.inventory().faults == []


def test_other_pipelines_go_on_and_doctor_and_page_name_the_one_that_cannot(site: Site) -> None:
    site.land("a.jsonl", order(1))
    site.run()
    declared = Preparer(site.settings, site.dsn).declared("orders")
    other = Preparer(site.settings, site.dsn).declared("trips")
    trips = site.of("trips")
    EXAMPLES["trips"].seed(trips.dsn, trips.settings.var)
    EXAMPLES["trips"].generate(trips.landing, 5, 1, datetime.now(UTC))
    with file_in_its_place(site.landing):
        assert trips.run() == 1
        with postgres.connect(site.dsn, autocommit=True) as connection:
            orders, trips_now = overview(connection, [declared, other], datetime.now(UTC))
        assert orders.standing == ("bad", f"landing folder '{site.landing}' cannot be listed (File exists)")
        assert trips_now.stuck is None
        fresh, *_ = verdict([orders, trips_now])
        assert fresh.problems == (("orders", orders.standing[1]),)
        with ledger.reading(site.dsn, "orders") as book:
            (found,) = diagnose(gather(declared, site.landing, book, datetime.now(UTC)))
        assert (found.state, found.what) == ("stuck", orders.standing[1])
        assert "take away what is in its place" in found.remedy
        assert f"cannot be read, so not counted: {orders.standing[1]}" in site.inventory().faults
    assert site.inventory().faults == []


def test_a_pipeline_whose_folder_was_never_made_is_not_stuck(site: Site) -> None:
    declared = Preparer(site.settings, site.dsn).declared("orders")
    assert not site.landing.exists()
    with postgres.connect(site.dsn, autocommit=True) as connection:
        (now,) = overview(connection, [declared], datetime.now(UTC))
    assert now.stuck is None
    assert not site.landing.exists(), "a look makes no folder"


def test_the_watcher_lets_a_run_say_why(site: Site) -> None:
    site.land("a.jsonl", order(1))
    site.run()
    watcher = Arrival("orders", site.landing, "jsonl", lambda: site.dsn, timedelta(days=7))
    assert not watcher.look(watcher.listing(), datetime.now(UTC)).due
    with unreadable.unlistable(site.landing):
        assert watcher.listing() == watcher.listing(), "it need not be looked at twice a second"
        assert watcher.look(watcher.listing(), datetime.now(UTC)).due
    assert not watcher.look(watcher.listing(), datetime.now(UTC)).due


def test_commands_print_the_sentence_and_no_trace(commanded: Site) -> None:
    commanded.land("a.jsonl", order(1))
    commanded.run()
    with file_in_its_place(commanded.landing):
        done = CliRunner().invoke(app, ["doctor", "--no-machine"])
    assert done.exit_code == 1
    assert "cannot be listed (File exists)" in " ".join(done.output.split())
    assert "Traceback" not in done.output


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOENT, errno.EMFILE])
def test_what_may_pass_by_itself_is_tried_again(number: int) -> None:
    assert isinstance(unlistable(Path("/landing"), OSError(number, "?")), LandingAway)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.EROFS])
def test_what_a_person_has_to_put_right_is_not_tried_for_ever(number: int) -> None:
    assert isinstance(unlistable(Path("/landing"), OSError(number, "?")), LandingShut)

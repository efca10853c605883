"""The folder of reports: whole files, a list that keeps itself right, no more reports than asked for."""

from __future__ import annotations

import contextlib
import json
import pickle
import resource
import shutil
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from etl.report import folder
from etl.report.model import RunReport
from tests.support import reports as samples


def _small(n: int) -> RunReport:
    """A report that is quick to draw; later numbers finished later."""
    return samples.empty(0).model_copy(
        update={
            "batch": f"{n:06d}",
            "outcome": "loaded",
            "seconds": {},
            "finished_at": samples.START + timedelta(minutes=n),
        }
    )


def _batches(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.is_dir())


def test_a_report_is_written_as_a_page_and_as_json(tmp_path: Path) -> None:
    report = samples.loaded()
    written = folder.write(report, tmp_path / "reports", keep=5)
    assert written.html == tmp_path / "reports" / "000061" / "index.html"
    assert "Batch 000061" in written.html.read_text("utf-8")
    assert RunReport.model_validate_json(written.json.read_bytes()) == report
    assert folder.read(tmp_path / "reports") == folder.read(tmp_path / "reports", "000061") == report


def test_the_list_has_the_newest_report_first_and_links_to_each(tmp_path: Path) -> None:
    for report in (samples.loaded(), samples.unbalanced(3).model_copy(update={"batch": "x"}), _small(1)):
        folder.write(report, tmp_path, keep=5)
    html = (tmp_path / "index.html").read_text("utf-8")
    assert (
        html.index('href="x/index.html"')
        < html.index('href="000061/index.html"')
        < html.index('href="000001/index.html"')
    )
    assert "1 not balanced" in html
    assert 'href="../data_docs/index.html"' in html


def test_only_the_newest_reports_are_kept(tmp_path: Path) -> None:
    for n in range(1, 6):
        folder.write(_small(n), tmp_path, keep=3)
    assert _batches(tmp_path) == ["000003", "000004", "000005"]
    assert [line.batch for line in folder.summaries(tmp_path)] == ["000005", "000004", "000003"]
    assert "000002" not in (tmp_path / "index.html").read_text("utf-8")


def test_the_report_just_written_is_kept_even_if_it_looks_oldest(tmp_path: Path) -> None:
    for n in (5, 4, 3):
        written = folder.write(_small(n), tmp_path, keep=2)
    assert written.html.exists()
    assert _batches(tmp_path) == ["000003", "000005"]
    assert folder.read(tmp_path).batch == "000005", "the latest report is the one that finished last"


def test_keeping_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep=0"):
        folder.write(_small(1), tmp_path, keep=0)


def test_a_batch_written_again_replaces_its_report(tmp_path: Path) -> None:
    folder.write(_small(1), tmp_path, keep=3)
    folder.write(_small(1).model_copy(update={"message": "the second attempt"}), tmp_path, keep=3)
    assert len(folder.summaries(tmp_path)) == 1
    assert folder.read(tmp_path).message == "the second attempt"


def test_pruning_leaves_what_is_not_a_report_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep me")
    for n in range(1, 4):
        folder.write(_small(n), tmp_path, keep=1)
    assert (tmp_path / "notes" / "mine.txt").read_text() == "keep me"
    assert _batches(tmp_path) == ["000003", "notes"]


@pytest.mark.parametrize("damage", [None, b"", b'[{"batch": "../../etc"}]', b"\xff\xfe{"])
def test_a_lost_or_damaged_list_is_made_again_from_the_reports(tmp_path: Path, damage: bytes | None) -> None:
    for n in (1, 2):
        folder.write(_small(n), tmp_path, keep=5)
    index = tmp_path / "index.json"
    index.unlink() if damage is None else index.write_bytes(damage)
    folder.write(_small(3), tmp_path, keep=5)
    assert [line["batch"] for line in json.loads(index.read_bytes())] == ["000003", "000002", "000001"]


def test_reports_deleted_by_hand_leave_the_list(tmp_path: Path) -> None:
    for n in (1, 2):
        folder.write(_small(n), tmp_path, keep=5)
    shutil.rmtree(tmp_path / "000001")
    folder.write(_small(3), tmp_path, keep=5)
    assert "000001" not in (tmp_path / "index.html").read_text("utf-8")


def test_the_list_is_made_without_opening_the_reports_it_lists(tmp_path: Path) -> None:
    folder.write(_small(1), tmp_path, keep=5)
    (tmp_path / "000001" / "report.json").write_text("unreadable, but listed already")
    folder.write(_small(2), tmp_path, keep=5)
    assert [line.batch for line in folder.summaries(tmp_path)] == ["000002", "000001"]


def test_the_history_is_oldest_first_and_leaves_out_runs_that_found_nothing(tmp_path: Path) -> None:
    for n in (1, 2, 3):
        folder.write(_small(n), tmp_path, keep=5)
    folder.write(_small(4).model_copy(update={"outcome": "empty"}), tmp_path, keep=5)
    assert [point.batch for point in folder.history(tmp_path)] == ["000001", "000002", "000003"]
    assert [point.batch for point in folder.history(tmp_path, batches=2)] == ["000002", "000003"]
    following = _small(5).model_copy(update={"history": folder.history(tmp_path)})
    assert RunReport.model_validate_json(following.model_dump_json()) == following


def test_a_folder_without_reports_has_an_empty_history_and_no_latest_report(tmp_path: Path) -> None:
    assert folder.history(tmp_path / "none") == ()
    with pytest.raises(folder.NoReport, match="has no run report;"):
        folder.read(tmp_path / "none")


@pytest.mark.parametrize("batch", ["000009", "../secret", "latest.json"])
def test_asking_for_a_report_that_is_not_there_is_one_clear_sentence(tmp_path: Path, batch: str) -> None:
    with pytest.raises(folder.NoReport, match="no run report of batch") as caught:
        folder.read(tmp_path, batch)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@contextlib.contextmanager
def _no_file_longer_than(size_bytes: int) -> Iterator[None]:
    """The kernel refuses to write further, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails_half_way_leaves_the_old_files_whole(tmp_path: Path) -> None:
    folder.write(_small(1), tmp_path, keep=5)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with _no_file_longer_than(6000), pytest.raises(OSError, match="File too large"):
        folder.write(_small(1).model_copy(update={"message": "never seen"}), tmp_path, keep=5)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    folder.write(_small(1), tmp_path, keep=3)
    done, seen, broken = threading.Event(), 0, []

    def read() -> None:
        nonlocal seen
        while not done.is_set():
            try:
                html = (tmp_path / "index.html").read_text("utf-8")
                json.loads((tmp_path / "latest.json").read_bytes())
                assert html.endswith("</html>"), "the list ends early"
                seen += 1
            except Exception as error:
                broken.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for n in range(2, 12):
            folder.write(_small(n), tmp_path, keep=3)
    finally:
        done.set()
        reader.join(timeout=30)
    assert seen
    assert not broken

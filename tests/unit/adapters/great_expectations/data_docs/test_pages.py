"""Pages of Data Docs are built one by one, and the list of the newest is kept beside the results."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from etl.adapters.great_expectations.audit import Audit, load
from etl.adapters.great_expectations.data_docs.pages import LISTED, Pages
from tests.support.declared import NOW, resolve

PIPELINE = """
name = "one"
[stream]
source = { landing = "one" }
key = ["id"]
[stream.fields]
id = "bigint"
"""
LINK = re.compile(r'<a href="(validations/[^"]*)">')


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What Great Expectations has found about some batch."""
    folder = tmp_path_factory.mktemp("audited")
    pipeline = resolve(folder, PIPELINE).pipeline
    table = pa.table({"id": [1], "batch": [1], "landed_at": [NOW]})
    Audit(folder / "results", folder / "docs", 3).check(table, pipeline, NOW, 1, 1)
    (stored,) = (folder / "results").rglob("*.json")
    return stored.read_text()


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    load()
    return Pages(tmp_path / "results", tmp_path / "docs")


def run(pages: Pages, result: str, pipeline: str, number: int, *, success: bool = True) -> None:
    """Store a result of one run, and build its page."""
    text = json.dumps({**json.loads(result), "success": success})
    pages.store(
        (pipeline, f"{pipeline}-{number}", f"20261119T0{number // 60}{number % 60:02}00.000000Z", "batch"), text
    )
    pages.build(pipeline, f"{pipeline}-{number}")


def listed(pages: Pages) -> list[str]:
    """Runs on the first page, in its order."""
    found = LINK.findall((pages.docs / "index.html").read_text())
    assert all((pages.docs / one).is_file() for one in found), "every link leads to a page"
    return [one.split("/")[2] for one in found]


def test_the_newest_results_of_all_pipelines_are_listed_first(pages: Pages, result: str) -> None:
    for number in range(3):
        run(pages, result, "one", 2 * number)
        run(pages, result, "two", 2 * number + 1, success=False)
    assert listed(pages) == ["two-5", "one-4", "two-3", "one-2", "two-1", "one-0"]
    text = (pages.docs / "index.html").read_text()
    assert (text.count("fa-check-circle"), text.count("fa-times")) == (3, 3)


def test_as_many_are_listed_as_fit_and_all_pages_stay(pages: Pages, result: str) -> None:
    for number in range(LISTED + 3):
        run(pages, result, "one", number)
    assert listed(pages) == [f"one-{number}" for number in range(LISTED + 2, 2, -1)]
    assert len(list((pages.docs / "validations").rglob("*.html"))) == LISTED + 3


def test_a_page_that_is_built_again_is_listed_once_and_takes_nobodys_place(pages: Pages, result: str) -> None:
    for number in range(3):
        run(pages, result, "one", number)
    run(pages, result, "one", 0, success=False)
    assert listed(pages) == ["one-2", "one-1", "one-0"]
    assert "fa-times" in (pages.docs / "index.html").read_text()


@pytest.mark.parametrize("damage", [None, b"", b'[{"time": 1}]', b"\xff"])
def test_a_list_that_is_lost_or_damaged_is_made_from_the_results(
    pages: Pages, result: str, damage: bytes | None
) -> None:
    for number in range(3):
        run(pages, result, "one", number)
    kept = pages.results / "newest.json"
    kept.unlink() if damage is None else kept.write_bytes(damage)
    run(pages, result, "one", 3)
    assert listed(pages) == ["one-3", "one-2", "one-1", "one-0"]


@pytest.mark.parametrize("torn", [b"", b'{"success": tr', b"\x00" * 100, b"\xff"])
def test_a_result_that_a_power_cut_has_torn_stops_no_page(pages: Pages, result: str, torn: bytes) -> None:
    run(pages, result, "one", 0)
    pages.store(("one", "one-1", "20261119T000030.000000Z", "batch"), result)
    (stored,) = (pages.results / "one" / "one-1").rglob("*.json")
    stored.write_bytes(torn)
    pages.build("one", "one-1")
    assert listed(pages) == ["one-0"]
    (pages.results / "newest.json").unlink()
    run(pages, result, "one", 1)  # the same batch, audited again
    run(pages, result, "two", 2)
    assert listed(pages) == ["two-2", "one-1", "one-0"]


def test_what_retention_has_removed_is_listed_no_more(pages: Pages, result: str) -> None:
    for number in range(3):
        run(pages, result, "one", number)
    shutil.rmtree(pages.docs / "validations" / "one" / "one-0")
    run(pages, result, "one", 3)
    assert listed(pages) == ["one-3", "one-2", "one-1"]


def test_a_run_without_a_result_has_no_page(pages: Pages) -> None:
    pages.build("one", "one-1")
    assert not pages.docs.exists()


def test_other_results_are_not_read_however_many_there_are(
    pages: Pages, result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    text_of = Path.read_text

    def noted(path: Path, *args: object, **options: object) -> str:
        read.append(path)
        return text_of(path, *args, **options)  # type: ignore[arg-type]

    run(pages, result, "one", 0)
    monkeypatch.setattr(Path, "read_text", noted)
    run(pages, result, "one", 1)
    first = len(read)
    for number in range(2, 30):
        run(pages, result, "one", number)
    read.clear()
    run(pages, result, "one", 30)
    assert len(read) == first
    assert sum(path.is_relative_to(pages.results / "one") for path in read) == 1


def test_a_result_that_great_expectations_cannot_render_has_a_page_that_says_so(pages: Pages, result: str) -> None:
    broken = json.loads(result)
    nothing = {"raised_exception": True, "exception_message": "<b>", "exception_traceback": None}
    broken["results"][0] |= {"success": False, "exception_info": nothing}
    run(pages, json.dumps(broken), "one", 1, success=False)
    assert listed(pages) == ["one-1"]
    (page,) = (pages.docs / "validations").rglob("*.html")
    assert "Some expectations are not met." in page.read_text()

"""Data Docs, built page by page: a batch's cost does not grow with the number of pages (ADR 115).

    audit/<pipeline>/<run>/<time>/<batch>.json ──▶ data_docs/validations/<pipeline>/<run>/<time>/<batch>.html
    audit/newest.json: the newest results, of all pipelines ─────▶ data_docs/index.html

Great Expectations renders pages and list; this module decides which ones, and their paths.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from etl.adapters.great_expectations.data_docs.offline import offline, place_assets

LISTED = 20
"""Results on the first page."""
_PAGES = "validations"
_TIME = "%Y%m%dT%H%M%S.%fZ"


@dataclass(frozen=True, slots=True, order=True)
class Listed:
    """An entry of the index page. Times are in a format that sorts as text."""

    time: str
    pipeline: str
    run: str
    batch: str
    success: bool
    asset: str

    @classmethod
    def of(cls, stored: Path, success: bool, asset: str | None) -> Self:
        """The entry of a result, from its path."""
        pipeline, run, time = stored.parts[-4:-1]
        return cls(time, pipeline, run, stored.stem, success, asset or "")

    @property
    def page(self) -> Path:
        """The path of its page, below the folder of Data Docs."""
        return Path(_PAGES, self.pipeline, self.run, self.time, f"{self.batch}.html")

    def link(self) -> dict[str, Any]:
        """The entry in the form of Great Expectations' list."""
        return {
            "expectation_suite_name": self.pipeline,
            "expectation_suite_filepath": None,
            "filepath": quote(self.page.as_posix()),
            "batch_identifier": self.batch,
            "batch_kwargs": {},
            "batch_spec": {},
            "validation_success": self.success,
            "run_time": datetime.strptime(self.time, _TIME).replace(tzinfo=UTC),
            "run_name": self.run,
            "asset_name": self.asset,
        }


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of all pipelines of a site."""

    results: Path
    docs: Path

    def store(self, key: tuple[str, ...], result: str) -> None:
        """Store a result under pipeline, run, time, batch."""
        *folders, batch = key
        _put(self.results.joinpath(*folders, f"{batch}.json"), result)

    def build(self, pipeline: str, run: str) -> None:
        """Build the pages of one run's results, and add them to the list; does nothing without results."""
        stored = sorted((self.results / pipeline / run).glob("*/*.json"))
        if not stored:
            return
        self.docs.mkdir(parents=True, exist_ok=True)
        place_assets(self.docs)
        built = [line for path in stored if (line := self._page(path)) is not None]
        with self._listing():
            known = {one for one in self._newest() if one.run != run or one.pipeline != pipeline}
            newest = sorted(one for one in {*known, *built} if (self.docs / one.page).exists())[-LISTED:]
            _put(self._list, json.dumps([asdict(one) for one in newest], indent=1))
            _put(self.docs / "index.html", _index(reversed(newest)))

    def _page(self, stored: Path) -> Listed | None:
        """Build the page of a result; skips one damaged by a power cut, as its batch is audited again."""
        from great_expectations.core.expectation_validation_result import expectationSuiteValidationResultSchema
        from great_expectations.render.renderer import ValidationResultsPageRenderer

        from etl.adapters.great_expectations.data_docs.view import ResultPages

        try:
            result = expectationSuiteValidationResultSchema.loads(stored.read_text())
        except ValueError:
            return None
        line = Listed.of(stored, bool(result.success), result.asset_name)
        try:
            content = ValidationResultsPageRenderer().render(result)
            text = ResultPages().render(content, data_context_id=None, show_how_to_buttons=False)
        except Exception as error:  # depends on the expectation's result; the batch's report continues
            text = _not_rendered(line, error)
        _put(self.docs / line.page, offline(text, "../" * len(line.page.parent.parts)))
        return line

    @property
    def _list(self) -> Path:
        return self.results / "newest.json"

    def _newest(self) -> list[Listed]:
        """The entries of the last list; if that is unreadable, of the newest results."""
        try:
            return [Listed(**line) for line in json.loads(self._list.read_text())]
        except (FileNotFoundError, ValueError, TypeError):
            stored = sorted(self.results.glob("*/*/*/*.json"), key=lambda path: path.parts[-2])[-LISTED:]
            return [line for path in stored if (line := _line_of(path)) is not None]

    @contextmanager
    def _listing(self) -> Iterator[None]:
        """A lock on the list, which all pipelines share."""
        with (self.results / ".listing").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _line_of(stored: Path) -> Listed | None:
    try:
        result = json.loads(stored.read_text())
    except ValueError:  # damaged by a power cut
        return None
    asset = result["meta"].get("active_batch_definition", {}).get("data_asset_name")
    return Listed.of(stored, bool(result["success"]), asset)


def _index(lines: Iterable[Listed]) -> str:
    from great_expectations.render.renderer import SiteIndexPageRenderer

    from etl.adapters.great_expectations.data_docs.view import IndexPage

    content = SiteIndexPageRenderer.render(
        {"site_name": "data_docs", "validations_links": [line.link() for line in lines]}
    )
    return offline(IndexPage().render(content, data_context_id=None, show_how_to_buttons=False), "")


def _not_rendered(line: Listed, error: Exception) -> str:
    """A placeholder page for a result that Great Expectations fails to render."""
    title = escape(f"Batch {line.run} of {line.pipeline}")
    verdict = "All expectations are met." if line.success else "Some expectations are not met."
    return (
        f"<!DOCTYPE html><html><head><title>{title}</title></head><body><main><h1>{title}</h1><p>{verdict}</p>"
        f"<p>Great Expectations could not make a page of this result ({escape(type(error).__name__)}). The run report "
        "of the batch lists every expectation.</p></main></body></html>"
    )


def _put(path: Path, text: str) -> None:
    """Write a file atomically. Not synced: the mart does not depend on it; a power cut may damage the newest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)

"""Input of streams that cannot be read is named by the report, the status, the doctor and the page, while it waits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from etl.cli import app
from etl.page.app import create_app
from etl.report.correlations.folder import read, write
from tests.support.page_access import DAGS, Client, MemoryAccess
from tests.support.pairs_site import check, land, make
from tests.support.stream_site import StreamSite
from tests.support.unreadable import refusing, unlistable

PERMISSION = "Permission denied"


def page_over(site: StreamSite) -> Client:
    access = MemoryAccess({"admin": frozenset(DAGS)})
    return Client(create_app(site.settings, lambda: site.dsn, access), "admin")


@contextmanager
def commanded(site: StreamSite, monkeypatch: pytest.MonkeyPatch) -> Iterator[CliRunner]:
    """Commands find the site in their settings."""
    with monkeypatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("FRONTSTAGE_")]:
            patch.delenv(name)
        patch.setenv("FRONTSTAGE_HOME", str(site.settings.home))
        patch.setenv("FRONTSTAGE_POSTGRES_DSN", site.dsn)
        patch.setenv("FRONTSTAGE_STREAMS", str(site.settings.streams))
        patch.setenv("FRONTSTAGE_CORRELATIONS", str(site.settings.correlations))
        yield CliRunner()


def told(runner: CliRunner, *command: str) -> str:
    return " ".join(runner.invoke(app, list(command)).output.split())


def test_a_file_that_cannot_be_read_is_named_wherever_correlations_are_shown(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make(tmp_path, database)
    land(site, 0)
    shut = site.settings.var / "landing" / "l" / "<b>.jsonl"
    (shut.parent / "0.jsonl").rename(shut)
    sentence = "1 file cannot be read and waits: '<b>.jsonl' (Permission denied)"
    with refusing(shut):
        result = site.run()
        assert result["shut"]["l"]["what"] == sentence
        assert result["shut"]["l"]["files"] == {"<b>.jsonl": PERMISSION}
        assert site.steps.report(None)["shut"] == result["shut"]

        written = write(result, site.settings.reports / "correlations", 10)
        assert read(site.settings.reports / "correlations").shut["l"].files == {"<b>.jsonl": PERMISSION}
        page = written.html.read_text()
        assert "Input that cannot be read" in page
        assert "&lt;b&gt;.jsonl" in page
        assert "<b>.jsonl" not in page

        assert site.steps.status()["shut"]["l"]["what"] == sentence
        with commanded(site, monkeypatch) as runner:
            assert f"stream l: {sentence}; let the account" in told(runner, "correlate", "status")
            assert f"stream l {sentence}" in told(runner, "doctor", "--no-machine")
        text = page_over(site).get("/c/").text
        assert "Input that cannot be read" in text
        assert "&lt;b&gt;.jsonl" in text
        assert "<b>.jsonl" not in text
    assert site.steps.status()["shut"] == {}
    assert "Input that cannot be read" not in page_over(site).get("/c/").text
    assert site.run()["shut"] == {}
    check(site, 1)


def test_a_folder_that_cannot_be_listed_is_named_and_one_that_was_never_made_is_not(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make(tmp_path, database)
    folder = site.settings.var / "landing" / "l"
    assert site.steps.status()["shut"] == {}
    assert not folder.exists(), "a look makes no folder"
    land(site, 0)
    sentence = f"landing folder '{folder}' cannot be listed (Permission denied)"
    with unlistable(folder):
        assert site.run()["shut"]["l"]["what"] == sentence
        assert site.steps.status()["shut"]["l"]["what"] == sentence
        with commanded(site, monkeypatch) as runner:
            done = runner.invoke(app, ["doctor", "--no-machine"])
            assert done.exit_code == 1
            assert "STUCK stream l" in done.output
        assert "cannot be listed (Permission denied)" in page_over(site).get("/c/").text
    site.run()
    check(site, 1)

"""Scripts beside Data Docs run what they are, and no text that comes along."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from etl.adapters.data_docs import ASSETS
from etl.page.security import DOCS_HEADERS

MAKES_CODE = re.compile(r"\beval\s*\(|\bFunction\s*\(\s*[\"'`]|\bset(?:Timeout|Interval)\s*\(\s*[\"'`]")
SCRIPTS = sorted((ASSETS / "js").glob("*.js"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_no_script_makes_code_of_text(script: Path) -> None:
    assert MAKES_CODE.findall(script.read_text()) == []


def test_text_that_makes_code_is_found() -> None:
    for text in ("eval(x)", 'Function("return this")()', "new Function('a')", "setTimeout('x()', 1)"):
        assert MAKES_CODE.search(text), text
    assert len(SCRIPTS) == 6


def test_the_browser_is_told_not_to_make_code_of_text_either() -> None:
    policy = DOCS_HEADERS["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe-eval" not in policy

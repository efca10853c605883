"""Data Docs run one script, which is ours: no text that comes along, and none of anybody else's."""

from __future__ import annotations

import re

import pytest

from etl.adapters.great_expectations.data_docs.offline import ASSETS, OURS, offline
from etl.page.security import DOCS_HEADERS

MAKES_CODE = re.compile(
    r"\beval\s*\(|\bFunction\s*\(|\bset(?:Timeout|Interval)\s*\(\s*[\"'`]|innerHTML|document\.write|javascript:"
)


def test_the_only_script_is_ours_and_makes_neither_code_nor_markup_of_text() -> None:
    scripts = [path for folder in (ASSETS, OURS) for path in folder.rglob("*.js")]
    assert [path.name for path in scripts] == ["readable.js"]
    assert MAKES_CODE.findall(scripts[0].read_text()) == []


@pytest.mark.parametrize("text", ["eval(x)", 'Function("return this")()', "new Function('a')", "setTimeout('x()', 1)"])
def test_text_that_makes_code_is_found(text: str) -> None:
    assert MAKES_CODE.search(text)


def test_the_browser_is_told_to_run_nothing_else() -> None:
    policy = dict(part.strip().split(" ", 1) for part in DOCS_HEADERS["Content-Security-Policy"].split(";"))
    assert (policy["script-src"], policy["default-src"]) == ("'self'", "'none'")


@pytest.mark.parametrize(
    "page",
    [
        "<p>a</p><script>alert(1)</script>",
        "<p>a</p><SCRIPT src='x.js'></SCRIPT >",
        '<p>a</p><script type="text/javascript">\n let a = "<b>";\n</script>',
    ],
)
def test_scripts_of_a_page_are_taken_out(page: str) -> None:
    assert offline(page, "") == "<p>a</p>"


def test_handlers_become_names_that_our_script_knows() -> None:
    page = '<label class="btn" onclick="showAllValidations()">All</label>'
    assert offline(page, "") == '<label class="btn" data-does="showAllValidations">All</label>'


def test_the_list_of_results_is_a_table_of_text() -> None:
    row = {"_validation_success_text": "Failed", "run_time": "today", "run_name": "<b>1</b>", "asset_name": None,
           "_table_row_link_path": 'validations/"x".html'}  # fmt: skip
    toolbar = '<div id="t-toolbar" class="ml-1"><button onclick="clearTableFilters(\'t\')">Clear</button></div>'
    script = f"<script>$('#t').bootstrapTable({{columns: [], data: {[row]}, toolbar: '#t-toolbar'}})</script>"
    page = offline(f'{toolbar}<table id="t">\n</table>{script}', "")
    assert "</i> Failed</td><td>today</td>" in page
    assert '<a href="validations/&quot;x&quot;.html">&lt;b&gt;1&lt;/b&gt;</a></td><td></td>' in page
    assert "Clear" not in page

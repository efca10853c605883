"""Pages of Great Expectations without the network: what they load lies beside them, and what is unknown is left out."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from etl.adapters.great_expectations.data_docs.offline import ASSETS, OFFLINE, OURS, offline, place_assets
from tests.support.synced import watch_syncs

FOUND = importlib.util.find_spec("great_expectations")
assert FOUND is not None
assert FOUND.origin is not None
TEMPLATES = Path(FOUND.origin).parent / "render" / "view" / "templates"
LOADS = re.compile(r'<(?:link|script|img)\b[^>]*(?:href|src)="([^"]+)"')


@pytest.mark.parametrize("template", ["index_page.j2", "page.j2", "page_minimal.j2", "js_script_imports.j2"])
def test_everything_a_template_loads_is_among_the_assets(template: str) -> None:
    text = (TEMPLATES / template).read_text()
    page = offline(text, "../../")
    loaded = [address for address in LOADS.findall(page) if "{{" not in address]
    assert loaded, "the page loads something"
    for address in loaded:
        assert address.startswith(f"../../{OFFLINE}/")
        name = address.removeprefix(f"../../{OFFLINE}/")
        assert (ASSETS / name).is_file() or (OURS / name).is_file()


def test_what_is_unknown_is_left_out_and_links_that_people_click_stay() -> None:
    page = '<script src="https://far.example/x.js"></script><a href="https://greatexpectations.io">them</a>'
    assert offline(page, "") == '<a href="https://greatexpectations.io">them</a>'


def test_no_integrity_is_asked_of_files_beside_the_page() -> None:
    page = '<link rel="stylesheet" href="https://x/css/bootstrap.min.css" integrity="sha384-x" crossorigin="anonymous">'
    assert offline(page, "") == f'<link rel="stylesheet" href="{OFFLINE}/css/bootstrap.min.css">'


def test_assets_are_placed_once_and_again_when_they_differ(tmp_path: Path) -> None:
    place_assets(tmp_path)
    style = tmp_path / OFFLINE / "css" / "bootstrap.min.css"
    style.write_text("mine")
    place_assets(tmp_path)
    assert style.read_text() == "mine"
    (tmp_path / OFFLINE / "version").write_text("an older one")
    place_assets(tmp_path)
    assert style.read_bytes() == (ASSETS / "css" / "bootstrap.min.css").read_bytes()


def test_the_version_is_noted_after_what_it_stands_for_was_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = watch_syncs(monkeypatch)
    place_assets(tmp_path)
    noted = next(at for at, path in enumerate(synced) if path.name == ".version.tmp")
    files = {path for path in (tmp_path / "static").rglob("*") if path.is_file() and path.name != "version"}
    assert files <= set(synced[:noted])


def test_styles_refer_to_nothing_outside(tmp_path: Path) -> None:
    for style in (ASSETS / "css").iterdir():
        assert not re.findall(r"url\(['\"]?https?:|@import", style.read_text())


def test_no_page_leads_to_the_page_of_a_suite_which_nobody_makes() -> None:
    suite = '<a class="x" href="../../../../expectations/orders.html" >orders</a>'
    page = f'<b>Suite:</b> {suite}<a href="../index.html">Home</a>'
    assert offline(page, "") == '<b>Suite:</b> orders<a href="../index.html">Home</a>'


def test_the_icon_is_found_from_every_depth() -> None:
    page = '<link rel="shortcut icon" href="../../../static/images/favicon.ico" type="image/x-icon"/>'
    assert 'href="../../../../static/images/favicon.ico"' in offline(page, "../../../../")


def test_ours_is_the_last_word_of_a_page(tmp_path: Path) -> None:
    page = offline("<head><style>theirs</style></head>", "../")
    assert page.index("theirs") < page.index(f"../{OFFLINE}/readable.css") < page.index("</head>")
    place_assets(tmp_path)
    assert {path.name for path in OURS.iterdir()} <= {path.name for path in (tmp_path / OFFLINE).iterdir()}

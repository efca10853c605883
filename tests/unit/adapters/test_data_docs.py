"""Pages of Great Expectations without the network: what they load lies beside them, and what is unknown is left out."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from etl.adapters.data_docs import ASSETS, OFFLINE, offline, place_assets

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
        assert (ASSETS / address.removeprefix(f"../../{OFFLINE}/")).is_file()
    networks = {address for address in re.findall(r"https?://[^\"'\s)]+", text) if "vega" not in address}
    assert len(loaded) == len([one for one in networks if not one.startswith("https://greatexpectations.io")])


def test_what_is_unknown_is_left_out_and_links_that_people_click_stay() -> None:
    page = '<script src="https://far.example/x.js"></script><a href="https://greatexpectations.io">them</a>'
    assert offline(page, "") == '<a href="https://greatexpectations.io">them</a>'


def test_no_integrity_is_asked_of_files_beside_the_page() -> None:
    page = '<script src="https://x/popper.min.js" integrity="sha384-x" crossorigin="anonymous"></script>'
    assert offline(page, "") == f'<script src="{OFFLINE}/js/popper.min.js"></script>'


def test_assets_are_placed_once_and_again_when_they_differ(tmp_path: Path) -> None:
    place_assets(tmp_path)
    style = tmp_path / OFFLINE / "css" / "bootstrap.min.css"
    style.write_text("mine")
    place_assets(tmp_path)
    assert style.read_text() == "mine"
    (tmp_path / OFFLINE / "version").write_text("an older one")
    place_assets(tmp_path)
    assert style.read_bytes() == (ASSETS / "css" / "bootstrap.min.css").read_bytes()


def test_styles_refer_to_nothing_outside(tmp_path: Path) -> None:
    for style in (ASSETS / "css").iterdir():
        assert not re.findall(r"url\(['\"]?https?:|@import", style.read_text())

"""The page of the architecture shows the tree as it is, in the order of imports; tests lie in a tree like it."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from etl.settings import PROJECT

ETL = PROJECT / "etl"
PAGE = PROJECT / "docs" / "architecture.md"
GUIDES = sorted(
    [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", PAGE.parent / "glossary.md", *PAGE.parent.glob("how-to/*.md")]
)
TESTS = PROJECT / "tests"
UNMIRRORED = {"bench", "repository"}
SHARED = re.compile(r"^ *from tests\.(?!support\b)[\w.]*\btest_\w+ import", re.MULTILINE)
LISTED = re.compile(r"`etl/([\w.]+)`((?:, `[\w.]+`)*)")


def named(text: str) -> list[str]:
    """The packages and modules of `etl/` that a text names, such as `etl/ingest`, `enrich`."""
    return [name for first, more in LISTED.findall(text) for name in (first, *re.findall(r"[\w.]+", more))]


def rows() -> list[list[str]]:
    """What stands in the first column of the page's table of packages, row by row."""
    _, _, below = PAGE.read_text().partition("## Packages and who may import whom")
    cells = [line.split("|")[1] for line in below.partition("\n## ")[0].splitlines() if line.startswith("| `etl")]
    return [named(cell) for cell in cells]


def layers() -> dict[str, int]:
    """By package, how far out the import contracts put it."""
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (ordered,) = [one["layers"] for one in contracts if one["type"] == "layers"]
    return {
        name.strip().removeprefix("etl."): level
        for level, layer in enumerate(reversed(ordered))
        for name in layer.split("|")
    }


def test_every_package_is_in_the_table_once() -> None:
    packages = [name for row in rows() for name in row if not name.endswith(".py")]
    assert sorted(packages) == sorted(path.parent.name for path in ETL.glob("*/__init__.py"))


def test_every_package_has_its_layer() -> None:
    assert {path.parent.name for path in ETL.glob("*/__init__.py")} <= layers().keys()


def test_the_table_is_in_the_order_of_the_import_contracts() -> None:
    level = layers()
    for above, below in pairwise(row for row in rows() if row[0] in level):
        assert max(level[name] for name in above) <= min(level[name] for name in below), (above, below)


@pytest.mark.parametrize("page", [PAGE, *GUIDES], ids=lambda page: page.name)
def test_a_package_that_a_page_names_exists(page: Path) -> None:
    assert [name for name in named(page.read_text()) if not (ETL / name).exists()] == []


def test_lists_of_packages_are_read_whole() -> None:
    assert named("(`etl/ingest`, `enrich`, `load`) and `etl/settings.py`") == [
        "ingest",
        "enrich",
        "load",
        "settings.py",
    ]


@pytest.mark.parametrize("kind", ["unit", "property"])
def test_the_tests_of_a_package_lie_in_a_folder_of_its_name(kind: str) -> None:
    folders = {path.parent.relative_to(TESTS / kind) for path in (TESTS / kind).rglob("test_*.py")}
    mirrored = [one for one in folders if not UNMIRRORED & set(one.parts)]
    assert [str(one) for one in mirrored if not (ETL / one).is_dir()] == []


def test_what_tests_share_is_in_their_support() -> None:
    found = [path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py") if SHARED.search(path.read_text())]
    assert [name for name in found if not name.startswith("faults/")] == []

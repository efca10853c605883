"""`python -m tests.faults.families`: write the tables of docs/faults.md anew, from the cases that there are.

One table for each file of cases, under the first sentence of its docstring, one row for each kind of fault.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from etl.settings import PROJECT
from tests.faults.__main__ import PATHS

PAGE = PROJECT / "docs" / "faults.md"
_BEGIN, _END = "<!-- cases: begin -->\n", "<!-- cases: end -->\n"
Cases = dict[Path, Counter[str]]


class Collector:
    """A pytest plugin that counts the cases of every kind, in the order of the files."""

    def __init__(self) -> None:
        self.cases: Cases = {}
        self.quick = 0

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        for item in items:
            self.cases.setdefault(item.path, Counter())[item.originalname] += 1
            self.quick += item.get_closest_marker("full") is None


def collect() -> Collector:
    """All cases of `make faults`."""
    collector = Collector()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *PATHS], plugins=[collector])
    if code != 0:
        raise SystemExit(said.getvalue())
    return collector


def tables(collected: Collector) -> str:
    total = sum(cases.total() for cases in collected.cases.values())
    parts = [f"{total} cases; the {collected.quick} quick ones are part of `make test`.\n"]
    for path, cases in collected.cases.items():
        parts.append(f"\n### {_headline(path)}\n\n`{path.relative_to(PROJECT)}`, {cases.total()} cases\n\n")
        parts.append("| fault | cases |\n| --- | --- |\n")
        parts += [f"| {_words(name)} | {count} |\n" for name, count in cases.items()]
    return "".join(parts)


def page(text: str, collected: Collector) -> str:
    """The page with the tables put in."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{tables(collected)}\n{_END}{after}"


def _headline(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or path.stem
    return re.split(r"\.(?:\s|$)", docstring.split("\n\n")[0].replace("\n", " "))[0]


def _words(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


if __name__ == "__main__":
    made = page(PAGE.read_text(), collect())
    if sys.argv[1:] == ["check"]:
        sys.exit(0 if made == PAGE.read_text() else "docs/faults.md is not up to date: python -m tests.faults.families")
    PAGE.write_text(made)

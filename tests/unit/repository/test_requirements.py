"""Every package that the tree imports is asked for by name in `requirements/*.in`; none comes along by accident."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from etl.settings import PROJECT
from tests.support.requirements import requirements

RUNTIME, DEV = PROJECT / "requirements" / "runtime.in", PROJECT / "requirements" / "dev.in"
OWN = {"etl", "warehouse", "tests", "bench", "dags", "docsite"}
TREES = [
    ("etl", RUNTIME),
    ("warehouse", RUNTIME),
    ("dags", RUNTIME),
    ("docker", RUNTIME),
    ("examples", RUNTIME),
    ("bin", RUNTIME),
    ("tests", DEV),
    ("bench", DEV),
    ("docsite", DEV),
]
distributions = cache(packages_distributions)


def declared(path: Path) -> set[str]:
    return {canonicalize_name(one.name) for one in requirements(path)}


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def undeclared(names: set[str], allowed: set[str]) -> set[str]:
    owners = distributions()
    foreign = names - OWN - set(sys.stdlib_module_names)
    return {name for name in foreign if not {canonicalize_name(one) for one in owners.get(name, [name])} & allowed}


@pytest.mark.parametrize(("folder", "asked"), TREES, ids=[folder for folder, _ in TREES])
def test_every_imported_package_is_declared(folder: str, asked: Path) -> None:
    names = {name for path in (PROJECT / folder).rglob("*.py") for name in imported(ast.parse(path.read_text()))}
    assert undeclared(names, declared(asked)) == set()


def test_no_folder_with_code_is_left_out() -> None:
    ours = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(ours, cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    assert {name.partition("/")[0] for name in listed.split("\0") if name} == {folder for folder, _ in TREES}


def test_a_package_that_only_comes_along_is_noticed() -> None:
    names = set(imported(ast.parse("import os, greenlet\nfrom mako.template import Template\nimport etl.model")))
    assert undeclared(names, declared(RUNTIME)) == {"greenlet", "mako"}

"""Kernels are cached by what they are made of."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from etl.columnar.jit import fingerprint

INNER = """
from etl.columnar.jit import kernel

@kernel
def inner(x):
    return x + {}
"""
OUTER = """
from etl.columnar.jit import kernel
from jit_inner import inner

@kernel
def outer(x):
    return inner(x)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("jit_inner", "jit_outer"):
        sys.modules.pop(name, None)


def load(name: str) -> object:
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module(name)


def test_a_change_in_a_called_kernel_is_noticed_in_another_file(folder: Path) -> None:
    (folder / "jit_outer.py").write_text(OUTER)
    results, prints = [], []
    for number in (1, 20):
        (folder / "jit_inner.py").write_text(INNER.format(number))
        load("jit_inner")
        results.append(load("jit_outer").outer(1))  # type: ignore[attr-defined]
        prints.append(fingerprint("jit_outer"))
    assert results == [2, 21]
    assert prints[0] != prints[1]


def test_no_module_compiles_past_this_one() -> None:
    root = Path(__file__).parents[3] / "etl"
    past = [path.relative_to(root).as_posix() for path in root.rglob("*.py") if "njit" in path.read_text()]
    assert past == ["columnar/jit.py"]

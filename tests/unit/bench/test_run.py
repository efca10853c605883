"""A benchmark and its page are one process, and the benchmark's verdict is its end."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from bench import page, run


@pytest.mark.parametrize("verdict", [0, 1, None])
def test_the_page_is_made_whatever_was_measured(monkeypatch: pytest.MonkeyPatch, verdict: int | None) -> None:
    done: list[list[str]] = []

    def measure() -> int | None:
        done.append(list(sys.argv))
        return verdict

    monkeypatch.setattr(sys, "argv", ["bench.run"])
    monkeypatch.setattr(run, "import_module", lambda _: SimpleNamespace(main=measure))
    monkeypatch.setattr(page, "main", lambda arguments: done.append(["page", *arguments]) or 0)
    assert run.main(["pages", "--rows", "5"]) == (verdict or 0)
    assert done == [["bench.pages", "--rows", "5"], ["page"]]


@pytest.mark.parametrize(
    "name", ["figures", "peers", "pipeline", "overload", "session", "grid", "cold", "pages", "soak"]
)
def test_every_benchmark_of_the_page_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.run"])
    with pytest.raises(SystemExit) as ended:
        run.main([name, "--help"])
    assert ended.value.code == 0

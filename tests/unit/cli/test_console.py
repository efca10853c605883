"""Tables of commands."""

from __future__ import annotations

import pytest

from etl.cli.console import Console


def test_a_table_that_is_too_wide_breaks_lines_and_cuts_nothing_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    name, reason = "payments_of_big_orders_by_region", "its table cannot be written: permission denied"
    Console().table("1 query", ["query", "owner", "reason"], [[name, "ada", reason]])
    shown = capsys.readouterr().out
    assert name in shown
    assert "…" not in shown
    cells = [line.split("│")[3].strip() for line in shown.splitlines() if line.startswith("│")]
    assert "".join(cells).replace(" ", "") == reason.replace(" ", "")

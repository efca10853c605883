"""A run is a success when its own batch came through, and not because another one did."""

from __future__ import annotations

from typing import Any

import pytest

from etl.pipeline.inspection.outcome import unsettled

LOADED: dict[str, Any] = {"batch": 3, "state": "loaded", "held": 0, "verdict": None, "run_id": "a", "report": "r"}


@pytest.mark.parametrize(
    ("reported", "failed", "settled"),
    [
        (LOADED, None, True),
        (LOADED, "a", True),
        (LOADED, "b", False),
        ({**LOADED, "state": "held"}, "a", False),
        ({**LOADED, "held": 2}, "a", False),
        ({**LOADED, "held": 2, "verdict": "rejected"}, "a", True),
        ({"batch": None}, "a", False),
    ],
)
def test_a_run_is_settled_by_its_own_batch(reported: dict[str, Any], failed: str | None, settled: bool) -> None:
    assert (unsettled(reported, failed) is None) == settled

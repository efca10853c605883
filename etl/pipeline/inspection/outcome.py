"""Whether a run succeeded, from its report alone; needs no engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def unsettled(reported: Mapping[str, Any], failed: str | None = None) -> str | None:
    """Why the reported batch makes its run a failure; None when the run succeeded.

    `failed` names a run whose own batch failed: that run fails even if the reported batch is of another run.
    """
    batch, state, held = reported["batch"], reported.get("state"), reported.get("held")
    if batch is None or (failed is not None and reported["run_id"] != failed and state == "loaded"):
        return "no batch of this run is loaded; the log of micro_batch says why"
    if state != "loaded":
        return f"batch {batch} is {state}; see {reported['report']}"
    if held and reported["verdict"] is None:
        return f"batch {batch}: {held} events wait for a decision"
    return None

"""Whether a run did what it was started for, from what its report tells. No engine is needed to say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def unsettled(reported: Mapping[str, Any], failed: str | None = None) -> str | None:
    """Why the run of a batch that was reported is not a success; None when it is one.

    `failed` is the run whose own batch did not come through: a batch of another run that was reported is no comfort.
    """
    batch, state, held = reported["batch"], reported.get("state"), reported.get("held")
    if batch is None or (failed is not None and reported["run_id"] != failed and state == "loaded"):
        return "no batch of this run is loaded; the log of micro_batch says why"
    if state != "loaded":
        return f"batch {batch} is {state}; see {reported['report']}"
    if held and reported["verdict"] is None:
        return f"batch {batch}: {held} events wait for a decision"
    return None

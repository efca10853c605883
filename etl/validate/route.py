"""Where every candidate goes, from what its joins found.

shed ────────────────────────────▶ backlog      waits for a batch with more room
every required master row found ─▶ accepted
one is missing ──────────────────▶ backlog      waits for the master row
  … for longer than the grace ───▶ quarantined  (reason unknown_<master>)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
SHED = "shed"


@dataclass(frozen=True, slots=True)
class Routes:
    """Three disjoint sets that are all candidates, and why a row is not accepted."""

    accepted: Flags
    backlog: Flags
    quarantined: Flags
    shed: Flags
    missing: Mapping[str, Flags]  # by required master

    def reasons(self, row: int) -> list[str]:
        """Why this row waits or is refused."""
        absent = [f"unknown_{master}" for master, flags in self.missing.items() if flags[row]]
        return absent or [SHED]


def route(found: Mapping[str, Flags], required: frozenset[str], shed: Flags, out_of_patience: Flags) -> Routes:
    """Route candidates; `out_of_patience` marks those that have waited longer than the grace."""
    missing = {master: ~flags & ~shed for master, flags in found.items() if master in required}
    incomplete = np.logical_or.reduce([shed, *missing.values()])
    given_up = incomplete & out_of_patience & ~shed
    return Routes(~incomplete, incomplete & ~given_up, given_up, shed, missing)

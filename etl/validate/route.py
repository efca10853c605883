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
import pyarrow as pa

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

    def reasons(self, rows: npt.NDArray[np.int64]) -> pa.Array:
        """Why these rows wait or are refused: a list of names for each."""
        code = np.zeros(len(rows), np.int64)
        for bit, flags in enumerate(self.missing.values()):
            code |= flags[rows].astype(np.int64) << bit
        codes, spread = np.unique(code, return_inverse=True)
        return pa.array([self._names(int(one)) for one in codes], pa.list_(pa.string())).take(pa.array(spread))

    def _names(self, code: int) -> list[str]:
        absent = [f"unknown_{master}" for bit, master in enumerate(self.missing) if code >> bit & 1]
        return absent or [SHED]


def route(found: Mapping[str, Flags], required: frozenset[str], shed: Flags, out_of_patience: Flags) -> Routes:
    """Route candidates; `out_of_patience` marks those that have waited longer than the grace."""
    missing = {master: ~flags & ~shed for master, flags in found.items() if master in required}
    incomplete = np.logical_or.reduce([shed, *missing.values()])
    given_up = incomplete & out_of_patience & ~shed
    return Routes(~incomplete, incomplete & ~given_up, given_up, shed, missing)

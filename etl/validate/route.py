"""The route of every candidate, from the results of its joins.

shed ────────────────────────────▶ backlog      waits for a batch with more room
every required master row found ─▶ accepted
one is missing ──────────────────▶ backlog      waits for the master row
  … for longer than the grace ─┬─▶ quarantined  (reason unknown_<master>)
                               └─▶ accepted     with the unknown member, if that is declared
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
    """A partition of the candidates into three routes, with the reasons of rows that are not accepted."""

    accepted: Flags
    backlog: Flags
    quarantined: Flags
    shed: Flags
    missing: Mapping[str, Flags]  # by required master
    unknown: Flags  # of the accepted, those that lack one

    def reasons(self, rows: npt.NDArray[np.int64]) -> pa.Array:
        """The reasons why these rows wait or are refused, as a list each."""
        code = np.zeros(len(rows), np.int64)
        for bit, flags in enumerate(self.missing.values()):
            code |= flags[rows].astype(np.int64) << bit
        codes, spread = np.unique(code, return_inverse=True)
        return pa.array([self._names(int(one)) for one in codes], pa.list_(pa.string())).take(pa.array(spread))

    @property
    def lacking(self) -> pa.Array:
        """The reasons of rows that are accepted with an unknown member; NULL for all others."""
        if not self.unknown.any():
            return pa.nulls(len(self.unknown), pa.list_(pa.string()))
        at = np.cumsum(self.unknown) - 1
        return self.reasons(np.flatnonzero(self.unknown)).take(pa.array(at, mask=~self.unknown))

    def _names(self, code: int) -> list[str]:
        absent = [f"unknown_{master}" for bit, master in enumerate(self.missing) if code >> bit & 1]
        return absent or [SHED]


def route(
    found: Mapping[str, Flags], required: frozenset[str], shed: Flags, out_of_patience: Flags, *, unknown: bool = False
) -> Routes:
    """Route candidates; `out_of_patience` marks those that have waited beyond the grace; `unknown`: accept those."""
    missing = {master: ~flags & ~shed for master, flags in found.items() if master in required}
    incomplete = np.logical_or.reduce([shed, *missing.values()])
    given_up = incomplete & out_of_patience & ~shed
    nobody = np.zeros_like(given_up)
    if unknown:
        return Routes(~incomplete | given_up, incomplete & ~given_up, nobody, shed, missing, given_up)
    return Routes(~incomplete, incomplete & ~given_up, given_up, shed, missing, nobody)

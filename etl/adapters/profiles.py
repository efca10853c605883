"""Figures of the last batches, and acknowledgements of unusual ones, in the ledger.

audit ──▶ etl.batch.audit: {"profile": {…}, "unusual": [findings]} ◀── the next batches learn from the last 60
frontstage report acknowledge ──▶ etl.acknowledged ── new_normal ──▶ learning restarts at that batch
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from etl.adapters import postgres
from etl.adapters.ledger import Ledger
from etl.errors import TerminalError
from etl.validate.distribution import HISTORY_BATCHES, Finding, Profile
from etl.validate.profile import from_json


class NothingUnusual(TerminalError):
    """A batch has no such finding to acknowledge."""

    exit_code = 64

    def __init__(self, pipeline: str, batch: int, check: str | None, found: tuple[str, ...]) -> None:
        super().__init__(pipeline, batch, check, found)
        self.pipeline, self.batch, self.check, self.found = pipeline, batch, check, found

    def __str__(self) -> str:
        what = "nothing" if self.check is None else f"no check {self.check!r}"
        known = f"; it has {', '.join(self.found)}" if self.found else ""
        return f"batch {self.batch} of {self.pipeline} has {what} to acknowledge{known}"


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A person's acknowledgement of a finding."""

    batch: int
    check: str
    new_normal: bool
    by: str
    at: datetime
    note: str


class Profiles:
    """The recorded figures of one pipeline."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def past(self, batch: int) -> tuple[Profile, ...]:
        """The figures of the last batches before this one, without those before a `new_normal`."""
        values = {"batch": batch, "limit": HISTORY_BATCHES}
        rows = self._ledger._all(postgres.statement("profile_history"), values)
        begins = self._new_normals()
        return tuple(
            {name: figure for name, figure in from_json(row["profile"]).items() if row["batch"] >= begins.get(name, 0)}
            for row in rows
        )

    def _new_normals(self) -> Mapping[str, int]:
        rows = self._ledger._all(
            "select check_name, max(batch) as batch from etl.acknowledged "
            "where pipeline = %(pipeline)s and new_normal group by check_name"
        )
        return {row["check_name"]: int(row["batch"]) for row in rows}

    def acknowledged(self, batch: int) -> dict[str, Acknowledged]:
        """The acknowledgements of a batch's findings, by check."""
        rows = self._ledger._all(
            'select batch, check_name as "check", new_normal, by, at, note from etl.acknowledged '
            "where pipeline = %(pipeline)s and batch = %(batch)s",
            {"batch": batch},
        )
        return {row["check"]: Acknowledged(**row) for row in rows}

    def acknowledge(
        self, batch: int, check: str | None, by: str, at: datetime, note: str = "", *, new_normal: bool = False
    ) -> tuple[str, ...]:
        """Acknowledge a finding, or all of a batch; returns the checks. Raises `NothingUnusual`."""
        audit = self._ledger.get(batch).audit or {}
        found = tuple(one.check for one in findings(audit))
        chosen = tuple(one for one in found if check in (None, one))
        if not chosen:
            raise NothingUnusual(self._ledger.pipeline, batch, check, found)
        with self._ledger.transaction():
            for one in chosen:
                values = {"batch": batch, "check": one, "new_normal": new_normal, "by": by, "at": at, "note": note}
                self._ledger._execute(postgres.statement("acknowledge"), values)
        return chosen


def findings(audit: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The findings in a batch's audit."""
    return tuple(Finding.from_json(one) for one in audit.get("unusual", ()))

"""An audit for drawn histories: it fails where an order is strange, and tells the oracle what each batch accepted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.adapters.great_expectations.audit import Audit
from etl.contract.model import Pipeline

if TYPE_CHECKING:
    from tests.faults.world import World

STRANGE = 1000
"""An order of so many pieces, or more, lets the audit of its batch fail."""
FAILED = "expect_column_max_to_be_between"
"""The expectation that it fails."""


def audit_by(world: Callable[[], World]) -> Callable[..., dict[str, Any]]:
    """What takes the place of `Audit.check`."""

    def check(_: Audit, accepted: pa.Table, __: Pipeline, now: datetime, batch: int, ___: int) -> dict[str, Any]:
        strange = int(pc.sum(pc.greater_equal(accepted["quantity"], STRANGE)).as_py())
        world().audited(batch, now, accepted["order_id"].to_pylist(), held=strange > 0)
        one = {"name": FAILED, "column": "quantity", "success": not strange, "unexpected": strange, "observed": None}
        return {"success": not strange, "expectations": [one]}

    return check

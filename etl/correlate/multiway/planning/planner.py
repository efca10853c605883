"""Choosing a plan, and when to replan.

A plan is kept while its cost is near the best plan's. It is replaced when, at current rates, it ships more than the
best plan by `tolerance`, and the saving over the next `horizon_s` exceeds the cost of filling the new plan's windows: a
window's worth of everything it ships.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from etl.correlate.multiway.planning.baselines import centralised, simple
from etl.correlate.multiway.planning.optimal import optimal
from etl.correlate.multiway.planning.partition import By
from etl.correlate.multiway.planning.pmjoin import best_unpartitioned
from etl.correlate.multiway.planning.several import partition_plan
from etl.correlate.multiway.planning.tree import Node, cost
from etl.correlate.multiway.rates import RateModel

Strategy = Literal["centralised", "simple", "algorithm1", "optimal", "pmjoin"]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """`shipment_bytes_per_s` is the fixed cost of a shipment: the header of a file per batch."""

    strategy: Strategy = "pmjoin"
    by: By = "rate"
    partitions: int = 100
    shipment_bytes_per_s: float = 0.0
    destination: str | None = None


def make_plan(model: RateModel, options: PlanOptions) -> Node:
    goal = options.destination
    if options.strategy == "centralised":
        return centralised(model, None, goal)
    if options.strategy == "simple":
        return simple(model)
    if options.strategy == "optimal":
        return optimal(model, None, goal)
    if options.strategy == "algorithm1":
        return best_unpartitioned(model, None, goal)
    return partition_plan(
        model, options.by, options.partitions, goal, shipment_bytes_per_s=options.shipment_bytes_per_s
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Replan:
    """A better plan, and the reason."""

    plan: Node
    present_bytes_per_s: float
    new_bytes_per_s: float
    move_bytes: float

    @property
    def reason(self) -> str:
        return (
            f"at the measured rates the present plan ships {self.present_bytes_per_s:,.0f} bytes/s and the new one "
            f"{self.new_bytes_per_s:,.0f}; filling its windows takes {self.move_bytes:,.0f} bytes once"
        )


def replan(
    present: Node, measured: RateModel, options: PlanOptions, *, tolerance: float = 0.2, horizon_s: float = 3600.0
) -> Replan | None:
    """A better plan at current rates; None if the current plan is good enough."""
    plan = make_plan(measured, options)
    now, then = (cost(one, measured.judge, options.destination) for one in (present, plan))
    longest = max((1 / one.turnover_per_s for one in measured.streams if one.turnover_per_s), default=0.0)
    move = then * longest
    worth = now > then * (1 + tolerance) and (now - then) * horizon_s > move
    return Replan(plan, now, then, move) if worth else None

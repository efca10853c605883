"""Routers as JSON, for the ledger, and the first router of a correlation's steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etl.contract.correlations.correlation import Correlation
from etl.correlate.biclique.choose import Lanes, RoutingChoice, choose
from etl.correlate.biclique.routing import BicliqueRouter, SideUnits, Subgroup
from etl.correlate.errors import RoutingRefused
from etl.correlate.query.condition import Condition


def router_json(router: BicliqueRouter) -> dict[str, Any]:
    return {"left": _side_json(router.left), "right": _side_json(router.right), "seed": router.seed}


def router_from_json(value: Mapping[str, Any]) -> BicliqueRouter:
    return BicliqueRouter(_side(value["left"]), _side(value["right"]), int(value["seed"]))


def _side_json(side: SideUnits) -> dict[str, Any]:
    groups = [[list(one.storing), list(one.draining)] for one in side.subgroups]
    return {"subgroups": groups, "slots": list(side.slots)}


def _side(value: Mapping[str, Any]) -> SideUnits:
    groups = tuple(Subgroup(tuple(storing), tuple(draining)) for storing, draining in value["subgroups"])
    return SideUnits(groups, tuple(value["slots"]))


def first_choice(declared: Correlation, condition: Condition, left: Lanes | None, right: Lanes | None) -> RoutingChoice:
    """The routing of one step: as declared, or by a sample of keys (None without an equality)."""
    m, n = declared.units
    equality = bool(condition.keys)
    if declared.routing == "auto":
        return choose(m, n, left, right)
    if declared.routing == "random":
        return RoutingChoice("random", 1, 1, "declared")
    if not equality:
        raise RoutingRefused(f"{declared.routing} without an equality", "only random routing knows no key")
    if declared.routing == "hash":
        return RoutingChoice("hash", m, n, "declared")
    assert declared.subgroups is not None, "contrand is declared with its subgroups"
    return RoutingChoice("contrand", *declared.subgroups, "declared")

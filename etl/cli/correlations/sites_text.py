"""The plan of a correlation over sites as text: a tree per group of partitions, bytes per edge, other plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any


def site_plan_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    """The whole plan, line by line."""
    where = f"gathered at {plan['target']}" if plan["target"] else "stay at the sites that make them"
    yield f"{plan['name']}: results {where}; tuples may come {timedelta(seconds=plan['lateness_s'])} late"
    for line in plan["sql"].strip().splitlines():
        yield f"    {line}"
    yield ""
    if plan["since"] is None:
        yield "no batch has come yet: rates are measured with the first one, and the plan is made from them"
        return
    for site in plan["away"]:
        yield f"site {site} is away: what needs it waits, nothing is lost"
    if "plan" not in plan:
        yield "the plan is made when all sites are there"
        return
    yield f"plan {plan['number'] + 1} ({plan['strategy']}): {plan['reason']}"
    yield from plan["plan"].splitlines()
    yield f"results up to batch {plan['published']} are there, since batch {plan['since']}"

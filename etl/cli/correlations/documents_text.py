"""The plan of a correlation of documents as text: window, partitions, their load, routing, the order of attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

_BAR = 24
_SHOWN = 12  # windows, and attributes


def document_plan_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    """The whole plan, line by line."""
    late = f"; documents may come {timedelta(seconds=plan['lateness_s'])} late" if plan["lateness_s"] else ""
    yield f"{plan['name']}: pairs of documents of {plan['stream']} that share a value and conflict in none{late}"
    yield f"window    {_window(plan['window'])}"
    yield f"kept      {', '.join(plan['keep']) or 'only ids and times'}; at most {plan['max_pairs']:,} pairs per window"
    if plan["since"] is None:
        yield f"joiners   {plan['partitions']}; partitions are made when the first batch has come"
        return
    yield f"joiners   {plan['joiners']}, of {plan['budget_bytes'] / 2**20:g} MiB each"
    yield f"routing   {_routing(plan['key'], plan['meeting'])}"
    for version in plan["versions"]:
        yield f"  version {version['version']}: {version['values']:,} values have a partition"
    wanted = "; new ones are made with the next batch" if plan["repartition_wanted"] else ""
    yield f"  made anew {plan['repartitions']} times{wanted} (theta {plan['theta']:g}, delta {plan['delta']})"
    for path in plan["constants"]:
        yield f"  {path} is the same in nearly all documents: it joins them with each other; `ignore` leaves it out"
    for path in plan["left_out"]:
        yield f"  {path} was the same in all documents at first, and is left out"
    if plan["left_out_undecided"]:
        yield "  what is the same in all documents is left out once 100 documents were seen; they are fewer yet"
    yield from _attributes(plan["attributes"])
    yield from _windows(plan["windows"])
    yield from _measured(plan)


def _routing(key: list[str], meeting: list[str]) -> str:
    """Where documents go, and which of them go to every joiner."""
    if not key:
        return "by all values; documents with a new value go to every joiner"
    name, other = " + ".join(key), " + ".join(meeting)
    if not meeting:
        return f"by {name}; documents without it, or with a new value of it, go to every joiner"
    return (
        f"by {name}, documents without it by {other}; documents that lack a part of both, or have a new value of "
        f"{name}, go to every joiner"
    )


def _window(window: Mapping[str, Any]) -> str:
    size, slide = window["size"], window["slide"]
    if window["by"] == "count":
        length, step = f"{size:,} documents", f"{slide:,} documents"
    else:
        length, step = str(timedelta(microseconds=size)), str(timedelta(microseconds=slide))
    return f"{length}, tumbling" if size == slide else f"{length}, sliding by {step}"


def _attributes(attributes: list[dict[str, Any]]) -> Iterator[str]:
    if not attributes:
        return
    yield "order of attributes in the tree"
    for one in attributes[:_SHOWN]:
        filled = round(_BAR * one["presence"])
        bar = "█" * filled + "·" * (_BAR - filled)
        yield f"  {one['path']:<24} {bar} in {one['presence']:.0%} of documents, {one['values']:,} values"


def _windows(windows: list[dict[str, Any]]) -> Iterator[str]:
    if not windows:
        return
    yield "open windows"
    for one in windows[-_SHOWN:]:
        cut = f", {one['cut']:,} cut" if one["cut"] else ""
        yield (
            f"  {one['start']:<26} {one['documents']:>10,} documents {one['found']:>10,} pairs{cut}  "
            f"replication {one['replication']:.2f}  load {one['maximal_load']:.2f}  Gini {one['gini']:.3f}"
        )
        yield f"  {'':<26} to joiners {' '.join(map(str, one['loads']))}, by {_versions(one)}"


def _versions(window: Mapping[str, Any]) -> str:
    """The partitions that a window's documents went by."""
    numbers = ", ".join(map(str, window["versions"])) or "none"
    anew = f" (made anew {window['repartitions']} times in it)" if window["repartitions"] else ""
    return f"version {numbers}{anew}"


def _measured(plan: Mapping[str, Any]) -> Iterator[str]:
    measured = plan["measured"]
    if not measured["batches"]:
        return
    yield f"measured  over {measured['batches']} batches since batch {plan['since']}"
    yield f"  {measured['tuples']:,} documents, {measured['messages']:,} sent to joiners, {measured['pairs']:,} pairs"
    if measured["tuples_per_s"]:
        yield f"  {measured['tuples_per_s']:,} documents per second"

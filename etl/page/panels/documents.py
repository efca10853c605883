"""Panels of correlations of documents: partitions and windows."""

from __future__ import annotations

from etl.contract.correlations.documents import DocumentCorrelation
from etl.page.panels.panel import Column, Panel, Table
from etl.page.queries.correlations import CorrelationDetail
from etl.report import figures


def partitions(one: CorrelationDetail) -> Panel | None:
    """The distribution of documents over joiners."""
    declared = one.declared
    if not isinstance(declared, DocumentCorrelation):
        return None
    intro = f"All pairs of documents of {declared.stream} in a window that share a value and conflict in none."
    found = None if one.last is None else one.last.raw.get("documents")
    if not found:
        return Panel("Partitions", intro)
    notes = [
        f"{found['partitions']} partitions, made anew {figures.number(found['repartitions'])} times; "
        f"{figures.number(found['updates'])} new values were taken in by batch {one.last.batch if one.last else 0}.",
    ]
    if found.get("cut"):
        notes.append(f"{figures.number(found['cut'])} pairs were beyond the bound of their window and are not kept.")
    notes += [
        f"{path} is the same in nearly all documents: it joins them with each other." for path in found["constants"]
    ]
    notes += [f"{path} was the same in all documents at first, and is left out." for path in found.get("left_out", ())]
    if found.get("left_out_undecided"):
        notes.append("What is the same in all documents is left out once 100 documents were seen; they are fewer yet.")
    return Panel("Partitions", intro, notes=tuple(notes))


def windows(one: CorrelationDetail) -> Panel | None:
    """The windows that the newest batch touched."""
    found = {} if one.last is None else one.last.raw.get("documents") or {}
    if not found.get("windows"):
        return None
    columns = (
        Column("Window from"), Column("State"), Column("Documents", True), Column("Pairs", True), Column("Cut", True),
        Column("Replication", True), Column("Maximal load", True), Column("Gini", True), Column("Partitions"),
        Column("Made anew", True),
    )  # fmt: skip
    rows = [
        [
            window["start"], "closed" if window["closed"] else "open", figures.number(window["documents"]),
            figures.number(window["found"]), figures.number(window["cut"]), f"{window['replication']:.2f}",
            f"{window['maximal_load']:.2f}", f"{window['gini']:.3f}",
            ", ".join(f"version {one}" for one in window.get("versions", ())),
            figures.number(window.get("repartitions", 0)),
        ]
        for window in found["windows"]
    ]  # fmt: skip
    return Panel("Windows", tables=(Table("Windows of the newest batch", columns, rows),))

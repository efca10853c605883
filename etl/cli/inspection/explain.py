"""`frontstage explain`: the memory plan, what reading costs here, which join that makes best, and what batches used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from etl import settings as configuration
from etl.cli.database import migrated_database
from etl.cli.options import Json
from etl.settings import Settings

if TYPE_CHECKING:
    from etl.adapters.ledger import BatchRecord
    from etl.masters.explanation import Explanation

_BATCHES = 5


def explain(
    tuples: Annotated[int, typer.Option(min=1, help="Events that have to be joined.")] = 50_000,
    keys: Annotated[
        int | None, typer.Option(min=1, help="Different keys among them; as many as an even draw gives when left out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what the joins may use, what reading masters costs on this machine, and which join that makes best."""
    from etl.masters import explanation
    from etl.masters.declared import declared_masters

    own = configuration.load()
    masters = declared_masters(own)
    tuples, now = max(tuples, keys or 0), datetime.now(UTC)
    explained = []
    with migrated_database(own) as dsn:
        for master in masters:
            with explanation.ports_of(own, dsn, master, now) as ports:
                explained.append(explanation.explain(own, len(masters), master.name, ports, tuples=tuples, keys=keys))
        records = _records(own, dsn)
    if as_json:
        typer.echo(json.dumps(_as_json(own, explained, records), indent=2))
        return
    typer.echo("\n".join(_text(own, explained, records)))


def _records(own: Settings, dsn: str) -> list[BatchRecord]:
    """The newest batches of every pipeline that have join metrics."""
    from etl.adapters import ledger
    from etl.contract.load import load_all

    found: list[BatchRecord] = []
    for pipeline in load_all(own.pipelines, own.var).pipelines:
        with ledger.reading(dsn, pipeline.name) as book:
            found += [record for record in book.history(_BATCHES) if record.joins]
    return found


def _as_json(own: Settings, explained: list[Explanation], records: list[BatchRecord]) -> dict[str, Any]:
    return {
        "tactic": own.tactic,
        "policy": own.policy,
        "store": own.master_store,
        "budget_bytes": own.budget_bytes,
        "masters": [one.as_json() for one in explained],
        "batches": [{"batch": str(record.batch), "joins": record.joins} for record in records],
    }


def _text(own: Settings, explained: list[Explanation], records: list[BatchRecord]) -> Iterator[str]:
    yield f"budget       {_size(own.budget_bytes)} for the joins of one worker and the front stage they share"
    yield f"tactic       {_tactic(own)}"
    yield f"front stage  keeps the most wanted master rows; which ones, policy {own.policy} decides"
    for one in explained:
        yield ""
        yield from _master(own, one)
        yield from _batches(one.master, records)


def _tactic(own: Settings) -> str:
    if own.tactic == "auto":
        return "auto: the cheapest is chosen for every batch"
    return f"{own.tactic}, because it is set; FRONTSTAGE_TACTIC=auto lets every batch choose the cheapest"


def _master(own: Settings, one: Explanation) -> Iterator[str]:
    pages = f"{one.profile.page_count:,} pages" if one.profile.page_count else "no pages"
    yield f"{one.master}: {one.rows:,} rows of about {one.profile.row_bytes:,} bytes in {pages}"
    yield "  memory"
    if one.front_bytes:
        yield _row("front stage", _size(one.front_bytes), f"about {one.front_rows:,} rows, shared by all workers")
    for name in one.sizes:
        parts = one.parts(name)
        buffer = _size(parts["buffer_bytes"])
        if name == "inlj":
            yield _row(name, buffer, f"the rows of one lookup, at most {parts['lookup_tuples']:,} tuples")
        else:
            yield _row(name, buffer, f"disk buffer; room for {parts['pending_tuples']:,} waiting tuples beside it")
    units = one.units
    yield "  what reading costs here, measured just now"
    yield _row("lookup", _time(units.call_s), f"for the call, and {_time(units.key_s)} for each key")
    yield _row("page by key", _time(units.seek_page_s), "to find a page and probe its rows")
    yield _row("next page", _time(units.scan_page_s), "to read on and probe the rows")
    yield "  what would be chosen" if own.tactic == "auto" else f"  what auto would choose ({own.tactic} is set)"
    yield from (f"    {line}" for line in one.choice.explain().splitlines())


def _batches(master: str, records: list[BatchRecord]) -> Iterator[str]:
    used = [(record.batch, record.joins[master]) for record in records if master in record.joins]
    yield "  what the newest batches used" if used else "  no batch has used it yet"
    for batch, metrics in reversed(used):
        tactics = sorted(metrics["tactics"].items(), key=lambda item: -item[1])
        names = ", ".join(name if len(tactics) == 1 else f"{name} for {count:,}" for name, count in tactics)
        answered = metrics["front_hits"] / max(1, metrics["tuples"])
        deferred = f", {metrics['shed']:,} deferred" if metrics["shed"] else ""
        reads = f"{metrics['lookups']:,} keys looked up, {metrics['pages']:,} pages read{deferred}"
        line = f"{metrics['tuples']:,} tuples by {names}; {answered:.1%} from the front stage, {reads}"
        yield _row(f"batch {batch}", "", line)
        if front := metrics.get("front_stage"):  # batches before it was recorded have none
            rows = f"{front['rows']:,} rows, {front['admitted']:,} came, {front['evicted']:,} went"
            yield _row("", "", f"then the front stage held {rows}, {front['reread']:,} had changed in the master")


def _row(name: str, figure: str, text: str) -> str:
    return f"    {name:<12}{figure:>10}  {text}" if figure else f"    {name:<12}{text}"


def _size(size: int) -> str:
    for unit, word in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {word}"
    return f"{size} bytes"


def _time(seconds: float) -> str:
    for unit, word in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {word}"
    return f"{seconds / 1e-9:.0f} ns"

"""`frontstage master …`: publish, refresh, follow, compact, and see how the published masters stand."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from etl import settings as configuration
from etl.cli.console import Console, fitted
from etl.cli.database import migrated_database
from etl.cli.options import Json, print_json
from etl.settings import Settings

if TYPE_CHECKING:
    from etl.contract.model import Master
    from etl.masters.upkeep.status import MasterStatus

app = typer.Typer(help="Publish master data as pages, keep them fresh and small.", no_args_is_help=True)

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Masters; all of them when left out.")]


@app.command()
def publish(names: Names = None, as_json: Json = False) -> None:
    """Read masters whole and publish them as a new version; batches go on with the old one meanwhile."""
    from etl.masters.upkeep import maintenance

    own, masters = _wanted(names)
    done: list[dict[str, Any]] = []
    with Console(stderr=as_json) as console, source_database(own) as dsn:
        for master in masters:
            console.doing(f"publishing {master.name}")
            result = maintenance.publish(own, dsn, master, _Progress(console, master.name))
            console.say(result.sentence)
            done.append(result.as_json())
    if as_json:
        print_json(done)


@app.command()
def refresh(names: Names = None, as_json: Json = False) -> None:
    """Bring masters up to what is committed now; publishes whole the first time and when it must."""
    from etl.masters.upkeep import maintenance

    own, masters = _wanted(names)
    done: list[dict[str, Any]] = []
    with Console(stderr=as_json) as console, source_database(own) as dsn:
        for master in masters:
            console.doing(f"refreshing {master.name}")
            result = maintenance.refresh(own, dsn, master, console.say, _Progress(console, master.name))
            console.say(result.sentence)
            done.append(result.as_json())
    if as_json:
        print_json(done)


@app.command()
def follow(names: Names = None, as_json: Json = False) -> None:
    """Note changes of masters in Postgres by triggers on them; without these, every batch reads such a master whole."""
    from etl.masters.upkeep import maintenance

    masters = _declared(names)
    done: list[dict[str, str]] = []
    with Console(stderr=as_json) as console, source_database(configuration.load()) as dsn:
        for master in masters:
            done.append({"master": master.name, "done": maintenance.follow(dsn, master)})
            console.say(done[-1]["done"])
    if as_json:
        print_json(done)


@app.command()
def compact(
    names: Names = None,
    force: Annotated[bool, typer.Option("--force", help="Also when few rows have changed.")] = False,
    as_json: Json = False,
) -> None:
    """Fold what changed into a new base when that is due, then remove versions nobody needs."""
    from etl.masters.pages.errors import NothingPublished
    from etl.masters.upkeep import maintenance

    own, masters = _wanted(names)
    done: list[dict[str, Any]] = []
    with Console(stderr=as_json) as console:
        for master in masters:
            console.doing(f"compacting {master.name}")
            try:
                result = maintenance.compact_and_collect(own, master, datetime.now(UTC), force=force)
                console.say(result.sentence)
                done.append(result.as_json())
            except NothingPublished:
                console.say(f"{master.name}: nothing is published yet, so there is nothing to compact")
    if as_json:
        print_json(done)


@app.command()
def status(names: Names = None, as_json: Json = False) -> None:
    """Show every master's version, size and age, what it is read from, and who needs older versions."""
    from etl.masters.upkeep.maintenance import ReadDirectly
    from etl.masters.upkeep.status import status

    own = configuration.load()
    if own.master_store != "pages":
        sentence = str(ReadDirectly(own.master_store))
        typer.echo(json.dumps({"store": own.master_store, "masters": []}, indent=2) if as_json else sentence)
        return
    now = datetime.now(UTC)
    found = [status(own, master, now) for master in _declared(names)]
    if as_json:
        typer.echo(json.dumps({"store": "pages", "masters": [one.as_json() for one in found]}, indent=2))
    else:
        typer.echo("\n".join(fitted(line) for one in found for line in _lines(one)))
    if any(one.trouble for one in found):
        raise typer.Exit(1)


@contextmanager
def source_database(own: Settings) -> Iterator[str]:
    """The database that masters are published from."""
    with migrated_database(own) as dsn:
        yield dsn


def _wanted(names: list[str] | None) -> tuple[Settings, tuple[Master, ...]]:
    """The settings and the masters to work on; refused before anything is started."""
    from etl.masters.upkeep.maintenance import store_of

    own, masters = configuration.load(), _declared(names)
    for master in masters:
        store_of(own, master)
    return own, masters


def _declared(names: list[str] | None) -> tuple[Master, ...]:
    from etl.masters.declared import declared_masters
    from etl.masters.upkeep.maintenance import chosen

    return chosen(declared_masters(configuration.load()), names or ())


class _Progress:
    """Progress in rows: updated often on a terminal, where the line is replaced; rarely elsewhere."""

    def __init__(self, console: Console, name: str) -> None:
        self._console, self._name = console, name
        self._every_s = 0.2 if sys.stdout.isatty() else 5.0
        self._printed_at: float | None = None

    def __call__(self, rows: int) -> None:
        now = time.monotonic()
        if self._printed_at is None or now - self._printed_at >= self._every_s:
            self._console.doing(f"{self._name}: {rows:,} rows so far")
            self._printed_at = now


def _lines(one: MasterStatus) -> Iterator[str]:
    """A master's status in a few aligned lines."""
    if one.trouble is not None:
        yield _line(one.master, "trouble", one.trouble)
    elif one.manifest is None or one.age is None:
        yield _line(one.master, "", "nothing is published yet; the first batch does it, or `frontstage master publish`")
    else:
        found = one.manifest
        same = "" if found.rows_version == found.version else f" (rows unchanged since version {found.rows_version})"
        changed, gone = (sum(getattr(run, what) for run in found.overlays) for what in ("rows", "tombstones"))
        due = ", compaction is due" if one.compaction_due else ""
        overlays = f"{len(found.overlays)} with {changed:,} changed rows, {gone:,} of them deleted{due}"
        yield _line(one.master, "version", f"{found.version}{same}")
        yield _line("", "rows", f"{found.rows:,} in {found.size_bytes:,} bytes")
        yield _line("", "overlays", overlays if found.overlays else "none")
        yield _line("", "published", f"{found.published_at:%Y-%m-%d %H:%M:%S} UTC, {_for_people(one.age)} ago")
        yield _line("", "source", ", ".join(f"{name} {value}" for name, value in one.source.items()) or "unknown")
    if one.versions:
        yield _line("", "on disk", f"{one.disk_bytes:,} bytes, versions {', '.join(map(str, one.versions))}")
    for pin in one.pins:
        yield _line("", "pinned", f"version {pin.version} by {pin.owner} since {pin.since:%Y-%m-%d %H:%M:%S} UTC")


def _line(master: str, what: str, text: str) -> str:
    return f"{master:<12} {what:<10} {text}" if what else f"{master:<12} {text}"


def _for_people(age: timedelta) -> str:
    seconds = max(0, int(age.total_seconds()))
    for size, word in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds // size} {word}"
    return f"{seconds} seconds"

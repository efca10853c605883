"""Small queries, their sites in memory or as folders, and an executor over them that is fed batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import fsspec
import pyarrow as pa

from etl.correlate.multiway.execution.book import FolderBook
from etl.correlate.multiway.execution.executor import Executor
from etl.correlate.multiway.execution.folder import SiteFolder
from etl.correlate.multiway.execution.report import RunReport
from etl.correlate.multiway.execution.segments import FolderSegments
from etl.correlate.multiway.planning.tree import Node
from etl.correlate.multiway.query import Column, Equality, Filter, JoinQuery, Site, Stream, TimeWindow, Window
from tests.support.multiway_oracle import Result, shown

SCHEMA = pa.schema(
    [("id", pa.int64()), ("at", pa.int64()), ("x", pa.int64()), ("y", pa.int64()), ("t", pa.string())]
)  # fmt: skip
SITES = ("eu", "us", "ap")
SECOND = 1_000_000


def seconds(length: float) -> TimeWindow:
    return TimeWindow(timedelta(seconds=length))


def stream(name: str, site: str, window: Window, *filters: Filter) -> Stream:
    return Stream(name, site, SCHEMA, "at", window, ("id",), filters)


def query(
    streams: Sequence[Stream],
    on: Sequence[tuple[str, str]],
    target: str | None = None,
    lateness: float = 0,
    root: str = "",
) -> JoinQuery:
    """`on` holds pairs like ("a.x", "b.x")."""
    sites = tuple(Site(name, f"{root}/{name}") for name in SITES)
    equalities = tuple(Equality(Column(*left.split(".")), Column(*right.split("."))) for left, right in on)
    return JoinQuery("test", sites, tuple(streams), equalities, target, timedelta(seconds=lateness))


def rows(*tuples: tuple[int, float, int, int, str]) -> pa.Table:
    """(id, seconds, x, y, t)"""
    columns = list(zip(*tuples, strict=True)) or [()] * 5
    columns[1] = tuple(int(at * SECOND) for at in columns[1])
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def quick(site: Site) -> SiteFolder:
    """Files that a power cut may take: tests have many of them."""
    return SiteFolder(site, durable=False)


class World:
    """A query that runs. `folder` makes the folder of a site, so that a test can let one fail."""

    def __init__(self, query: JoinQuery, root: str | Path, folder: Callable[[Site], SiteFolder] | None = None) -> None:
        self.query, self.root, self.folder = query, str(root), folder or quick
        for site in (*query.sites, Site("home", f"{self.root}/home")):
            fs, path = fsspec.core.url_to_fs(site.root)
            fs.makedirs(path, exist_ok=True)
            quick(site).create()
        self.history: list[dict[int, pa.Table]] = []
        self.restart()

    def restart(self) -> None:
        """As after a crash: nothing is left but the files."""
        self.folders = {site.name: self.folder(site) for site in self.query.sites}
        self.segments = FolderSegments(self.query, self.folders)
        home = quick(Site("home", f"{self.root}/home"))
        self.executor = Executor(self.query, FolderBook(self.query.name, home), self.folders, self.segments)

    def feed(self, batch: dict[int, pa.Table], plan: Node | None = None) -> None:
        """A batch lands; with a plan, it is the first to follow it."""
        if plan is not None:
            self.executor.adopt(plan)
        for number in range(len(self.query.streams)):
            self.segments.write(number, len(self.history), batch[number])
        self.history.append(batch)
        self.executor.begin(batch)

    def run(self) -> RunReport:
        return self.executor.run()

    def results(self) -> Counter[Result]:
        found: Counter[Result] = Counter()
        for batch in range(len(self.history)):
            found += shown(self.query, self.executor.results(batch))
        return found

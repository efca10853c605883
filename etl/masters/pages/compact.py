"""Compaction: fold overlays into a new base, concurrently with readers and refreshes.

    begin    runs  B o1 o2            the merged rows are written as a new base B', without locks
    meanwhile      B o1 o2 o3         a refresh adds o3
    commit   runs  B' o3              only the folded runs are replaced

If a new base was published meanwhile, the result is discarded, without loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from etl.masters.pages.errors import CountMismatch
from etl.masters.pages.manifest import Manifest, RunEntry
from etl.masters.pages.publish import PublishConfig, utc_now, write_run
from etl.masters.pages.store import PageStore

_PAGES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class CompactWhen:
    """When to compact: overlays cost readers more than a new base costs to write."""

    overlays: int = 8
    share_of_base: float = 0.1

    def due(self, manifest: Manifest) -> bool:
        """Whether compaction pays."""
        changed = sum(run.rows for run in manifest.overlays)
        return len(manifest.overlays) > self.overlays or changed > self.share_of_base * max(1, manifest.base.rows)


def compact(store: PageStore, config: PublishConfig | None = None, clock: Callable[[], datetime] = utc_now) -> Manifest:
    """Fold all overlays of the current version into a new base. Returns the current version afterwards."""
    config = config or PublishConfig()
    with store.building():
        with store.open() as view:
            begun = view.manifest
            if not begun.overlays:
                return begun
            base = write_run(store, "base", begun.shape, view.stored_rows(_PAGES_AT_ONCE), view.size(config.size))
        if base.rows != begun.rows:
            raise CountMismatch(store.name, "the number of rows after compaction", base.rows, begun.rows)
        with store.writing(config.wait_s):
            current = store.manifest()
            runs = _replaced(begun, current, base)
            if runs is None:
                return current
            return store.commit(replace(current, version=current.version + 1, runs=runs, published_at=clock()))


def _replaced(begun: Manifest, current: Manifest, base: RunEntry) -> tuple[RunEntry, ...] | None:
    """The runs after compaction; None if the base has changed since it began.

    A refresh may have merged an overlay that is also in our base into a newer overlay. The newer overlay stays: for
    its keys it is at least as new as our base.
    """
    if current.base != begun.base:
        return None
    return (base, *[run for run in current.overlays if run not in begun.runs])

"""Status of the published masters: versions, sizes, age, pins. Read-only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from etl.contract.model import Master
from etl.errors import FrontstageError
from etl.masters.pages.compact import CompactWhen
from etl.masters.pages.errors import NothingPublished
from etl.masters.pages.manifest import Manifest
from etl.masters.pages.store import PageStore
from etl.masters.pins import Pin
from etl.masters.upkeep.maintenance import store_of
from etl.settings import Settings

_SHOWN = ("follow", "snapshot", "quiet_since", "delta_version")
"""The parts of a source's position to show: useful ones, no secrets."""


@dataclass(frozen=True, slots=True)
class MasterStatus:
    """One master as it is published now."""

    master: str
    manifest: Manifest | None  # None: nothing is published, or it cannot be read
    versions: tuple[int, ...]
    pins: tuple[Pin, ...]
    disk_bytes: int
    age: timedelta | None = None
    compaction_due: bool = False
    trouble: str | None = None
    source: Mapping[str, Any] = field(default_factory=dict)  # the position in the source; no secrets

    def as_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = {
            "master": self.master,
            "published": self.manifest is not None,
            "versions": list(self.versions),
            "pins": [{**asdict(pin), "since": pin.since.isoformat()} for pin in self.pins],
            "disk_bytes": self.disk_bytes,
            "trouble": self.trouble,
        }
        if self.manifest is None or self.age is None:
            return plain
        found = self.manifest
        return plain | {
            "version": found.version,
            "rows_version": found.rows_version,
            "rows": found.rows,
            "bytes": found.size_bytes,
            "overlays": len(found.overlays),
            "overlay_rows": sum(run.rows for run in found.overlays),
            "tombstones": sum(run.tombstones for run in found.overlays),
            "published_at": found.published_at.isoformat(),
            "age_s": round(self.age.total_seconds(), 3),
            "compaction_due": self.compaction_due,
            "source": dict(self.source),
        }


def status(settings: Settings, master: Master, now: datetime) -> MasterStatus:
    """The status of one master. A damaged store is reported in `trouble`, not raised."""
    store = store_of(settings, master)
    bare = MasterStatus(master.name, None, tuple(store.versions()), tuple(store.pins.all()), _disk_bytes(store))
    try:
        found = store.manifest()
    except NothingPublished:
        return bare
    except FrontstageError as error:
        return replace(bare, trouble=str(error))
    source = {name: found.position[name] for name in _SHOWN if name in found.position}
    due, age = CompactWhen().due(found), now - found.published_at
    return replace(bare, manifest=found, age=age, compaction_due=due, source=source)


def _disk_bytes(store: PageStore) -> int:
    total = 0
    for path in store.root.rglob("*") if store.root.is_dir() else ():
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # a collection was faster
            continue
    return total

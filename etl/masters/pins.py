"""Pins: which versions are in use, and by whom.

    a reader   holds a shared lock on the manifest it opened; the kernel drops it when the process ends
    an owner   (a batch) has a file in `pins/`; it survives crashes, so a retry finds the version it began with

A version is collected only under an exclusive lock on its manifest and when no owner names it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote, unquote

from etl.adapters.durable import make_folder
from etl.masters.pages import files


@dataclass(frozen=True, slots=True)
class Pin:
    """One owner's claim on a version."""

    owner: str
    version: int
    since: datetime


class Pins:
    """The pins of owners, one small file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, owner: str) -> Pin | None:
        """An owner's pin, if any."""
        return _read(self._path(owner))

    def put(self, pin: Pin) -> None:
        """Pin a version; the caller holds its manifest's lock."""
        make_folder(self._folder)
        files.write_durably(
            self._path(pin.owner),
            json.dumps({"version": pin.version, "since": pin.since.isoformat()}).encode(),
        )

    def drop(self, owner: str) -> None:
        """Remove an owner's pin."""
        files.remove(self._path(owner))

    def all(self) -> list[Pin]:
        """Every pin, oldest first."""
        found = [_read(path) for path in self._folder.glob("*.json")] if self._folder.is_dir() else []
        return sorted((pin for pin in found if pin is not None), key=lambda pin: (pin.since, pin.owner))

    def _path(self, owner: str) -> Path:
        return self._folder / f"{quote(owner, safe='')}.json"


def _read(path: Path) -> Pin | None:
    """Read a pin; None if it is unreadable, so that its owner pins again."""
    try:
        body = json.loads(path.read_text())
        return Pin(unquote(path.stem), int(body["version"]), datetime.fromisoformat(body["since"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None

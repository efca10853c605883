"""The store of one master: its versions, their pins, and garbage collection.

    versions/00000001.json … 00000007.json      the highest number is current
    commit     write temporary file → sync → rename to the next number → sync the folder
    open       open the manifest, lock it shared, check that it still has its name
    collect    lock a manifest exclusively, check that no pin names it, remove it; then remove unreferenced runs

Two rules make crashes harmless: a manifest is renamed only after all runs in it are synced and verified, and a file is
removed only after no manifest names it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa

from etl.adapters.durable import make_folder
from etl.masters.pages import files, manifest
from etl.masters.pages.errors import DAMAGE, NothingPublished, StoreBusy, VersionGone
from etl.masters.pages.manifest import Manifest
from etl.masters.pages.runs.run import Run, check_run, open_run
from etl.masters.pages.view import MasterPages
from etl.masters.pins import Pin, Pins

_DISCARDED = "discarded"
SORTING = "sorting-"
"""Prefix of folders with spilled rows."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of a collection."""

    versions: tuple[int, ...]
    files: int
    bytes: int


class PageStore:
    """The store under one root. Cheap to create; keep one per process, as it caches which pages are verified."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self.name = self.root.name
        self.runs, self._versions = self.root / "runs", self.root / "versions"
        self.pins = Pins(self.root / "pins")
        self._open_runs: dict[str, Run] = {}

    # --- versions

    def versions(self) -> list[int]:
        """The versions that exist, oldest first."""
        if not self._versions.is_dir():
            return []
        return [number for number in self._numbers() if number > self._discarded()]

    def next_version(self) -> int:
        """The number of the next version, never used before: equal numbers mean equal rows."""
        return max([self._discarded(), *self._numbers()]) + 1

    def number_on(self) -> None:
        """Continue the numbering without manifests: the next number is one that no run was written for."""
        made = [manifest.made_for(path.name) for path in self.runs.glob("*-*.arrows")]
        if made and not self._numbers():
            make_folder(self._versions)
            last = max([self._discarded(), *made])
            files.write_durably(self._versions / _DISCARDED, str(last).encode())

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self._versions.glob("[0-9]*.json"))

    def _discarded(self) -> int:
        try:
            return int((self._versions / _DISCARDED).read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def current(self) -> int | None:
        """The current version, if any."""
        return max(self.versions(), default=None)

    def manifest(self, version: int | None = None) -> Manifest:
        """The manifest of a version; by default the current one."""
        number, data, release = self._hold(version)
        release()
        return manifest.parse(self.name, self._path(number).name, data)

    def commit(self, new: Manifest) -> Manifest:
        """Make a version current. The caller holds `writing()` and has verified the runs."""
        make_folder(self._versions)
        assert new.version == self.next_version(), "versions are numbered one after the other"
        files.write_durably(self._path(new.version), new.to_bytes())
        return new

    def _path(self, version: int) -> Path:
        return self._versions / f"{version:08d}.json"

    # --- readers

    def open(
        self, version: int | None = None, *, columns: Sequence[str] | None = None, random_access: bool = False
    ) -> MasterPages:
        """Open a version (by default the current one), which is kept until the reader is closed.

        `columns` selects the columns to read. `random_access` tells the kernel not to read ahead: better when
        the master is far larger than memory and only looked up, worse for scans.
        """
        number, data, release = self._hold(version)
        try:
            found = manifest.parse(self.name, self._path(number).name, data)
            runs = {entry.name: self._open_runs.get(entry.name) for entry in found.runs}
            for entry in found.runs:
                runs[entry.name] = runs[entry.name] or open_run(
                    self.runs, entry, found.shape, random_access=random_access
                )
            opened = [run for run in runs.values() if run is not None]
            self._open_runs = {run.entry.name: run for run in opened}
            return MasterPages(found, opened, release, columns)
        except BaseException:
            release()
            raise

    def _hold(self, version: int | None) -> tuple[int, bytes, Callable[[], None]]:
        """Lock a manifest against collection: its number and bytes, and the function that releases the lock."""
        while True:
            number = self.current() if version is None else version
            if number is None:
                raise NothingPublished(self.name)
            held = self._try_hold(self._path(number))
            if held is not None:
                return number, *held
            if version is not None:
                raise VersionGone(self.name, version)

    def _try_hold(self, path: Path) -> tuple[bytes, Callable[[], None]] | None:
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        # Blocks only while a collector checks this version.
        if not files.acquire(file.fileno(), shared=True, wait_s=30.0) or os.fstat(file.fileno()).st_nlink == 0:
            file.close()
            return None
        return file.read(), file.close

    # --- pins

    def pin(self, owner: str, now: datetime, version: int | None = None) -> int:
        """Keep a version for an owner until `unpin`. An existing pin stays: a retry sees the same rows."""
        earlier = self.pins.of(owner)
        if earlier is not None:
            return earlier.version
        number, _, release = self._hold(version)
        try:
            self.pins.put(Pin(owner, number, now))
        finally:
            release()
        return number

    def unpin(self, owner: str) -> None:
        """Remove an owner's pin."""
        self.pins.drop(owner)

    # --- damage

    def is_whole(self) -> bool:
        """Whether all checksums of the current version match; reads all of it."""
        try:
            found = self.manifest()
            for entry in found.runs:
                check_run(self.runs, entry, found.shape)
        except NothingPublished:
            return True
        except (*DAMAGE, pa.ArrowException, OSError):
            return False
        return True

    def discard(self) -> None:
        """Remove all versions and pins, after damage: the next publish starts a new base with the next number."""
        with self.writing(30.0):
            self._open_runs = {}
            numbers = self.versions()
            make_folder(self._versions)
            files.write_durably(self._versions / _DISCARDED, str(self.next_version() - 1).encode())
            for number in numbers:
                files.remove(self._path(number))
            for pin in self.pins.all():
                self.pins.drop(pin.owner)

    # --- writers

    @contextmanager
    def writing(self, wait_s: float) -> Iterator[None]:
        """The exclusive lock for commits and collection."""
        with files.locked(self.root / "writer.lock", wait_s=wait_s) as obtained:
            if not obtained:
                raise StoreBusy(self.name, wait_s)
            make_folder(self.runs)
            yield

    @contextmanager
    def building(self) -> Iterator[None]:
        """Protect files that no manifest names yet from collection."""
        make_folder(self.runs)
        with files.locked(self.root / "building.lock", shared=True, wait_s=30.0):
            yield

    def collect(
        self, now: datetime, *, keep: int = 2, pins_for: timedelta | None = None, wait_s: float = 30.0
    ) -> Collected:
        """Remove versions that are not among the `keep` newest, not open and not pinned.

        Pins older than `pins_for` are ignored: their owners are presumed dead.
        """
        with self.writing(wait_s):
            for pin in self.pins.all():
                if pins_for is not None and now - pin.since > pins_for:
                    self.pins.drop(pin.owner)
            for folder in self.root.glob(f"{SORTING}*"):  # left by a crashed publisher: we hold the lock
                shutil.rmtree(folder, ignore_errors=True)
            removed = tuple(number for number in self.versions()[: -max(1, keep)] if self._remove_version(number))
            with files.locked(self.root / "building.lock") as alone:
                count, size = self._remove_unnamed() if alone else (0, 0)
        return Collected(removed, count, size)

    def _remove_version(self, version: int) -> bool:
        path = self._path(version)
        with path.open("r+b") as file:
            if not files.acquire(file.fileno(), shared=False):
                return False
            if any(pin.version == version for pin in self.pins.all()):
                return False
            files.remove(path)
            return True

    def _remove_unnamed(self) -> tuple[int, int]:
        if self._versions.is_dir():
            files.sync_folder(self._versions)  # a power cut must not restore a manifest whose files are gone
        named = {run.name for number in self.versions() for run in self.manifest(number).runs}
        count = size = 0
        for path in sorted(self.runs.iterdir()):
            if path.name.lstrip(".").split(".")[0] not in named:
                count, size = count + 1, size + path.stat().st_size
                files.remove(path)
        return count, size

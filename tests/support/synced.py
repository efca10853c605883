"""What is synced to disk, seen as it happens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def watch_syncs(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files and folders that are synced from now on, in their order."""
    synced: list[Path] = []
    real = os.fsync

    def sync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    return synced

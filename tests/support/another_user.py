"""Another user of the machine, whoever runs the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_NOBODY_WE_KNOW = 61_234


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a path, not what is below it, be another user's. Who is not root becomes another user instead."""
    if os.geteuid() == 0:
        os.chown(path, _NOBODY_WE_KNOW, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: _NOBODY_WE_KNOW)

"""Files that cannot be read: tests run as root, too, which may read everything, so `open` itself refuses."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def refusing(path: Path, number: int = errno.EACCES) -> Iterator[None]:
    """Meanwhile opening this file fails, as for another user's file of mode 0600."""
    opens = os.open

    def refuse(name: Any, *given: Any, **named: Any) -> int:
        if os.fsencode(name) == os.fsencode(path):
            raise OSError(number, os.strerror(number), name)
        return opens(name, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", refuse)
        yield


def link(path: Path) -> None:
    target = path.with_name(".elsewhere")
    target.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(target)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def gone(path: Path) -> None:
    path.unlink()


SWAPS: dict[str, Callable[[Path], None]] = {"link": link, "pipe": pipe, "folder": folder, "gone": gone}
"""What a sender may put in a landed file's place."""


def remove(path: Path) -> None:
    """Remove what was put there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def unlistable(folder: Path, number: int = errno.EACCES) -> Iterator[None]:
    """Meanwhile listing this folder fails, as for another user's folder, or one on a machine that has gone."""
    lists = os.scandir

    def refuse(path: Any = ".") -> Any:
        if os.fsencode(path) == os.fsencode(folder):
            raise OSError(number, os.strerror(number), path)
        return lists(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        yield

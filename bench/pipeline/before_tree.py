"""The tree that *before* runs from: a detached git work tree of one commit, below var/bench.

It uses the environment of this tree; its own packages come first on Python's path. `bench` is a namespace package, so
the modules of this benchmark are found beside the old ones.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from etl.errors import MissingPart
from etl.settings import PREFIX, PROJECT

COMMIT = "5c57f68"
"""The last commit before a batch was written, audited and published: 64 Spark jobs a batch."""


def ensure(folder: Path) -> Path:
    """The work tree in `folder`, made when it is not there."""
    if _head(folder) != (wanted := _revision()):
        _git("worktree", "prune")
        if folder.exists():
            _git("worktree", "remove", "--force", str(folder))
        folder.parent.mkdir(parents=True, exist_ok=True)
        _git("worktree", "add", "--detach", str(folder), wanted)
    return folder


def environment(tree: Path | None = None) -> dict[str, str]:
    """What a contender's process starts with: no settings of the user's, and `tree` before this project."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith((PREFIX, "PYTHON", "SPARK_"))}
    path = os.pathsep.join(str(part) for part in (tree, PROJECT) if part is not None)
    return {**kept, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def _head(folder: Path) -> str | None:
    if not (folder / "etl").is_dir():
        return None
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else None


def _revision() -> str:
    return _git("rev-parse", "--verify", f"{COMMIT}^{{commit}}")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise MissingPart("git is not installed", "install it, or leave out the contender `before`") from None
    if done.returncode:
        raise MissingPart(
            f"the tree of commit {COMMIT} cannot be checked out ({done.stderr.strip()})",
            "fetch the whole history (`git fetch --unshallow`), or leave out the contender `before`",
        )
    return done.stdout.strip()

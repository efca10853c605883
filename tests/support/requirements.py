"""What the files of requirements ask for."""

from __future__ import annotations

from pathlib import Path

from packaging.requirements import Requirement


def requirements(path: Path) -> list[Requirement]:
    """The requirements of a file and of those it includes."""
    found: list[Requirement] = []
    for line in path.read_text().splitlines():
        text = line.split("#")[0].strip()
        if text.startswith("-r "):
            found += requirements(path.parent / text.removeprefix("-r ").strip())
        elif text:
            found.append(Requirement(text))
    return found

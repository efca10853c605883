"""Memory sizes as text: `64MiB`, `2GiB`."""

from __future__ import annotations

import re

from etl.contract.errors import Refusal, TomlPath

_SIZE = re.compile(r"(\d{1,18})\s*(B|KiB|MiB|GiB)")
_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def size(path: TomlPath, given: str) -> int:
    """Parse a size in bytes; anything but a positive size is refused, with its key."""
    found = _SIZE.fullmatch(given.strip())
    count = int(found[1]) * _BYTES[found[2]] if found else 0
    if not count:
        raise Refusal(path, f"{path[-1]} is {given!r}, but must be a size such as '64MiB' or '2GiB'")
    return count

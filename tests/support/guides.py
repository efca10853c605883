"""Guides are run as they are written: the shell blocks of a page, in order, by one shell.

    ```sh       is run, unless `<!-- not tried: why -->` stands before it
    ```text     right after it: what it prints, line by line

Loosely: spaces do not count, any number stands for any other, `…` for anything, and other lines may come between. Hosts
and folders that a reader has to fill in are replaced by those of the test.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"(?P<excuse><!-- not tried: [^\n]+ -->\n)?```sh\n(?P<commands>.*?)^```$(?:\n+```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_NUMBER = re.compile(r"\d[\d,.]*")
_END = "-- end of block"


@dataclass(frozen=True)
class Block:
    """Commands, and the lines that a guide says they print."""

    commands: str
    lines: tuple[str, ...]

    def missing(self, printed: str) -> list[str]:
        """Lines that were promised and not printed."""
        found = [_plain(line) for line in printed.splitlines()]
        return [line for line in self.lines if not any(_pattern(line).search(one) for one in found)]


def blocks(page: Path) -> list[Block]:
    """What is to be run of a page."""
    return [
        Block(found["commands"], tuple(filter(str.strip, (found["output"] or "").splitlines())))
        for found in _BLOCK.finditer(page.read_text())
        if not found["excuse"]
    ]


def run(
    page: Path,
    cwd: Path,
    env: Mapping[str, str],
    replaced: Mapping[str, str] | None = None,
    after: str = "",
    timeout_s: float = 1400,
) -> str:
    """Run the blocks of a page, then more; what the latter printed. Each block has printed what the page says."""
    tried = blocks(page)
    assert tried, f"{page.name} has commands that are tried"
    script = "set -euo pipefail\n" + "".join(f"{one.commands}echo '{_END}'\n" for one in tried) + after
    for said, meant in (replaced or {}).items():
        assert said in script, f"{page.name} does not say {said}"
        script = script.replace(said, meant)
    done = subprocess.run(
        ["bash", "-c", script], cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=timeout_s
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *printed, last = done.stdout.split(f"{_END}\n")
    for block, text in zip(tried, printed, strict=True):
        missing = block.missing(text)
        assert not missing, f"not printed: {missing}, but\n{text}"
    return last


def _plain(line: str) -> str:
    return " ".join(line.split())


def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(_any_number(part) for part in _plain(line).split("…")))


def _any_number(text: str) -> str:
    return _NUMBER.pattern.join(re.escape(part) for part in _NUMBER.split(text))

"""Errors in pipeline files, each one sentence with file and line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from etl.errors import TerminalError

TomlPath = tuple[str | int, ...]
"""The path of a value in a file: `("stream", "fields", "quantity", "min")`, or an index for an item of an array."""


class PipelineFileError(TerminalError):
    """A mistake in a pipeline file."""

    exit_code = 78  # EX_CONFIG

    def __init__(self, file: str, line: int, sentence: str) -> None:
        super().__init__(file, line, sentence)
        self.file, self.line, self.sentence = file, line, sentence

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake and its path in the document; the loader adds file and line."""

    path: TomlPath
    sentence: str


class Refusal(Exception):
    """Raised with a mistake; the loader collects all of them."""

    def __init__(self, path: TomlPath, sentence: str) -> None:
        super().__init__(sentence)
        self.mistake = Mistake(path, sentence)


def unknown(what: str, given: str, allowed: Iterable[str], plural: str) -> str:
    """The message about an unknown name, with the closest known one."""
    names = list(allowed)
    near = get_close_matches(given, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    listed = ", ".join(names) or "none"
    return f"{given!r} is not {what}; {hint}{plural} {'is' if len(names) < 2 else 'are'} {listed}"

"""The values of a TOML file, within bounds: whatever the text is, there are values or one sentence with a line.

Python's parser gives up without a line on deep nesting and on numbers of thousands of digits, and lets numbers pass
that nothing of ours can show or store. No declaration needs either, so both are refused here, once for all files.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Final

from etl.contract.errors import PipelineFileError, TomlPath
from etl.contract.parsing.locate import line_of, line_of_syntax_error, lines_of

_DEEPEST: Final = 32  # tables and arrays within each other; a declaration has five
_WIDEST: Final = 256  # bits of a whole number; the widest type has 127
_NESTED: Final = f"tables and arrays are nested more than {_DEEPEST} deep"
_TOO_LONG: Final = "a number is too long to be a value of any type"
_MANY_DIGITS: Final = re.compile(r"[0-9][0-9_]{4000,}")  # Python reads up to 4300
_BRACKET: Final = re.compile(r"[\[{}\]]")


class _Unreadable(ValueError):
    """A number with a point or exponent that is too long."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def values_of(text: str, file: str) -> dict[str, object]:
    """The values that a file's text declares. Raises `PipelineFileError` when it is not TOML or out of bounds."""
    try:
        declared = tomllib.loads(text, parse_float=_exact)
    except tomllib.TOMLDecodeError as error:
        reason = str(error).partition(" (at ")[0]
        raise PipelineFileError(file, line_of_syntax_error(str(error), text), f"not TOML: {reason}") from None
    except RecursionError:
        raise PipelineFileError(file, _line_at(text, _deepest(text)), _NESTED) from None
    except _Unreadable as error:
        raise PipelineFileError(file, _line_at(text, text.find(error.text)), _TOO_LONG) from None
    except ValueError:
        found = _MANY_DIGITS.search(text)
        raise PipelineFileError(file, _line_at(text, found.start() if found else 0), _TOO_LONG) from None
    for path, sentence in _out_of_bounds(declared):
        raise PipelineFileError(file, _line_of(text, path), sentence)
    return declared


def _exact(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise _Unreadable(text) from None


def _out_of_bounds(declared: object) -> Iterator[tuple[TomlPath, str]]:
    waiting: list[tuple[TomlPath, object]] = [((), declared)]
    while waiting:
        path, value = waiting.pop()
        if len(path) > _DEEPEST:
            yield path, _NESTED
        elif isinstance(value, dict):
            waiting += [((*path, key), one) for key, one in value.items()]
        elif isinstance(value, list):
            waiting += [((*path, number), one) for number, one in enumerate(value)]
        elif isinstance(value, int) and value.bit_length() > _WIDEST:
            yield path, _TOO_LONG


def _line_of(text: str, path: TomlPath) -> int:
    try:
        return line_of(lines_of(text), path)
    except RecursionError:
        return _line_at(text, _deepest(text))


def _deepest(text: str) -> int:
    """Where most brackets are open, as far as strings and comments have none."""
    depth = most = position = 0
    for found in _BRACKET.finditer(text):
        depth = depth + 1 if found[0] in "[{" else max(0, depth - 1)
        if depth > most:
            most, position = depth, found.start()
    return position


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1

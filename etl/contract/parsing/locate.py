"""The lines of values in a TOML file, which `tomllib` does not provide.

    text ──scanner──▶ {("stream", "fields", "quantity"): 14, ("stream", "fields", "quantity", "min"): 14, …}

The scanner only follows the structure (headers, keys, strings, brackets) of text that `tomllib` has accepted, so it
need not validate. A path that is not in the text (a missing key) has the line of its parent.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from etl.contract.errors import TomlPath

_KEY = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\'[^\']*\'|[A-Za-z0-9_-]+)\s*')
_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_STRING = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL)
_BARE = re.compile(r"[^,\]}\n#]+")
_IN_TEXT = re.compile(r"\(at line (\d+), column \d+\)")


def line_of(lines: dict[TomlPath, int], path: TomlPath) -> int:
    """The line of a path, or of the nearest part of the document around it."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 1


def line_of_syntax_error(message: str, text: str) -> int:
    """The line that a message of `tomllib` names; its last line when it speaks of the end."""
    found = _IN_TEXT.search(message)
    return int(found[1]) if found else max(1, text.rstrip().count("\n") + 1)


def lines_of(text: str) -> dict[TomlPath, int]:
    """The line of every key, table and array item in valid TOML."""
    scanner = _Scanner(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    scanner.document()
    return scanner.lines


@dataclass(slots=True)
class _Scanner:
    text: str
    at: int = 0
    lines: dict[TomlPath, int] = field(default_factory=dict)
    arrays: Counter[TomlPath] = field(default_factory=Counter)  # `[[table]]` headers seen

    def document(self) -> None:
        table: TomlPath = ()
        while self._skip_blank():
            if self.text.startswith("[", self.at):
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> TomlPath:
        double = self.text.startswith("[[", self.at)
        self.at += 2 if double else 1
        name = self._key()
        path = self._through_arrays(name[:-1])
        path = (*path, name[-1])
        if double:
            self._note(path)
            self.arrays[path] += 1
            path = (*path, self.arrays[path] - 1)
        elif path in self.arrays:
            path = (*path, self.arrays[path] - 1)
        self._note(path)
        self.at += 2 if double else 1
        return path

    def _through_arrays(self, names: TomlPath) -> TomlPath:
        """A header's path, with the index of the last item for each array of tables in it."""
        path: TomlPath = ()
        for name in names:
            path = (*path, name)
            if path in self.arrays:
                path = (*path, self.arrays[path] - 1)
        return path

    def _pair(self, table: TomlPath) -> None:
        self._skip_blank()
        path = (*table, *self._key())
        self._note(path)
        self.at += 1  # the equals sign
        self._value(path)

    def _value(self, path: TomlPath) -> None:
        self._skip_blank()
        opening = self.text[self.at : self.at + 1]
        if opening == "[":
            self._items(path, "]")
        elif opening == "{":
            self._items(path, "}")
        else:
            pattern = _STRING if opening in ("'", '"') else _BARE
            found = pattern.match(self.text, self.at)
            assert found is not None, "the text is TOML that tomllib has accepted"
            self.at = found.end()

    def _items(self, path: TomlPath, closing: str) -> None:
        """The items of an array or the pairs of an inline table."""
        self.at += 1
        number = 0
        while self._skip_blank() and not self.text.startswith(closing, self.at):
            if self.text.startswith(",", self.at):
                self.at += 1
            elif closing == "}":
                self._pair(path)
            else:
                self._note((*path, number))
                self._value((*path, number))
                number += 1
        self.at += 1

    def _key(self) -> TomlPath:
        names: list[str] = []
        while True:
            found = _KEY.match(self.text, self.at)
            assert found is not None, "the text is TOML that tomllib has accepted"
            names.append(_unquoted(found[1]))
            self.at = found.end()
            if not self.text.startswith(".", self.at):
                return tuple(names)
            self.at += 1

    def _note(self, path: TomlPath) -> None:
        line = self.text.count("\n", 0, self.at) + 1
        for length in range(1, len(path)):
            self.lines.setdefault(path[:length], line)  # an implicit table
        self.lines.setdefault(path, line)

    def _skip_blank(self) -> bool:
        found = _BLANK.match(self.text, self.at)
        assert found is not None, "matches the empty text too"
        self.at = found.end()
        return self.at < len(self.text)


def _unquoted(key: str) -> str:
    if key.startswith("'"):
        return key[1:-1]
    if not key.startswith('"'):
        return key
    import tomllib

    (name,) = tomllib.loads(f"{key} = 0")
    return name

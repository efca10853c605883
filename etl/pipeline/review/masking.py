"""Mask sensitive fields of refused lines for reports; everything else is shown as it came.

    JSON, Parquet   members of the object, if the line can be parsed
    CSV             values by their header, the first line of the file that the line came from
    neither         not shown at all: the extent of a sensitive value is unknown

A line has fields of the stream only, never columns of masters.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from etl.adapters.landing import is_range
from etl.contract.model import Stream
from etl.ingest.csv_lines import csv_header

MASK = "***"
HIDDEN = "(not shown: the line cannot be taken apart, and one of its fields is sensitive)"
_LONGEST_HEADER = 1 << 16
_BLANK = " \t\r\n"


class Refusing(Protocol):
    """The owner of refused lines: a pipeline, or a stream of correlations."""

    @property
    def name(self) -> str: ...

    @property
    def stream(self) -> Stream: ...

    @property
    def sensitive(self) -> frozenset[str]: ...


class LinePlaces(Protocol):
    """The owner's landing folder, archive, tables and notes of releases."""

    @property
    def landing(self) -> Path: ...

    @property
    def archive(self) -> Path: ...

    @property
    def tables(self) -> Path: ...

    @property
    def releases(self) -> Path: ...


@dataclass(frozen=True, slots=True)
class Masking:
    """How lines of one pipeline are masked."""

    pipeline: Refusing
    places: LinePlaces

    @property
    def _names(self) -> frozenset[str]:
        """The names that sensitive fields have in the input."""
        stream = self.pipeline.stream
        return frozenset(one.source_name for one in stream.fields if one.name in self.pipeline.sensitive)

    def masked(self, raw: bytes, source_file: str, landed_at: datetime) -> str:
        """A line with sensitive values masked."""
        text = raw.decode("utf-8", "replace")
        if not self._names:
            return text
        if self.pipeline.stream.source.format != "csv":
            return _masked_json(text, self._names)
        header = self.header(source_file, landed_at)
        return HIDDEN if header is None else self._masked_csv(text, header)

    def _masked_csv(self, text: str, header: str) -> str:
        delimiter = self.pipeline.stream.source.delimiter
        names, values = (_record(line, delimiter) for line in (header, text))
        if len(names) != len(values) or not self._names.intersection(names):
            return HIDDEN
        shown = [MASK if name in self._names else value for name, value in zip(names, values, strict=True)]
        line = io.StringIO()
        csv.writer(line, delimiter=delimiter, lineterminator="").writerow(shown)
        return line.getvalue()

    def header(self, name: str, landed_at: datetime) -> str | None:
        """The first line of the file that landed under this name at this time, wherever it is now.

        Messages have no header; theirs is as declared.
        """
        if is_range(os.fsencode(name)):
            return csv_header(self.pipeline.stream).decode()
        for path in self._candidates(name):
            try:
                if datetime.fromtimestamp(path.stat().st_mtime_ns / 1e9, UTC) == landed_at:
                    with path.open(encoding="utf-8-sig", newline="") as file:
                        return file.readline(_LONGEST_HEADER).rstrip("\r\n")
            except (OSError, ValueError):
                continue
        return None

    def _candidates(self, name: str) -> Iterator[Path]:
        yield self.places.landing / name
        days = sorted(self.places.archive.iterdir(), reverse=True) if self.places.archive.is_dir() else []
        yield from (day / name for day in days)


def _record(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def _masked_json(text: str, names: frozenset[str]) -> str:
    """The object with the values of these members masked; everything else stays byte for byte."""
    shown, done = [], 0
    try:
        for name, start, end in _members(text):
            if name in names:
                shown += [text[done:start], json.dumps(MASK)]
                done = end
    except ValueError:
        return HIDDEN
    return "".join([*shown, text[done:]])


def _members(text: str) -> Iterator[tuple[str, int, int]]:
    """The members of a JSON object: name, start and end of the value. Raises `ValueError` if the text is none."""
    decoder = json.JSONDecoder()
    at = _after(text, 0, "{")
    while text[at : at + 1] != "}":
        name, at = decoder.raw_decode(text, at)
        start = _after(text, at, ":")
        _, end = decoder.raw_decode(text, start)
        yield str(name), start, end
        at = _skip(text, end)
        if text[at : at + 1] != "}":
            at = _after(text, at, ",")
    if _skip(text, at + 1) != len(text):
        raise ValueError("something follows the object")


def _after(text: str, at: int, token: str) -> int:
    """The position after a required token and the white space behind it."""
    at = _skip(text, at)
    if text[at : at + 1] != token:
        raise ValueError(f"{token} is missing")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at

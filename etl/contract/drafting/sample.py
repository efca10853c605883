"""Infer fields from a sample of events: types, formats, optional and unique fields.

    values as text ──▶ bigint | decimal(18,4) | double | boolean | timestamp | date | string: the first that all fit

Guesses for a draft that a person then reviews; not used for events of a pipeline.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from etl.contract.model import Format
from etl.contract.words.types import declared_name, stored_type
from etl.errors import TerminalError

_ROWS = 10_000
FORMATS = (
    "%d/%m/%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M",
    "%Y/%m/%d %H:%M:%S", "%Y%m%d%H%M%S", "%d/%m/%Y", "%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d", "%d %b %Y", "%b %d %Y",
)  # fmt: skip
_NUMBER = re.compile(r"[+-]?\d{1,19}")
_DECIMAL = re.compile(r"[+-]?\d{1,14}\.(\d{1,4})")
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_CURRENCY = re.compile(r"\s*[$€£¥]\s*")
_STRIPPED = re.compile(r"[$€£¥, ]")
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}((?:,\d{2,3})*,\d{3}|(?: \d{3})+)(\.\d*)?")  # thousands: 1,299.99
_COMMA = re.compile(r"[+-]?\d[\d. ]*,\d+")
_COMMA_NOTE = "text, as numbers with a comma before their decimals are not read"
_ISO_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*")


class SampleRefused(TerminalError):
    """A file of events cannot be read as a sample."""

    exit_code = 65  # EX_DATAERR

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path} is not a sample of events: {self.reason}; give a file of .jsonl, .csv or .parquet"


@dataclass(frozen=True, slots=True)
class SampledField:
    """An inferred field."""

    name: str  # a plain identifier
    source: str  # its name in the input
    type: str
    format: str | None
    strip: str
    required: bool
    unique: bool
    example: str
    note: str = ""  # about the guess, for the person who reviews it


@dataclass(frozen=True, slots=True)
class Sample:
    format: Format
    delimiter: str
    fields: tuple[SampledField, ...]

    def named(self, name: str) -> SampledField | None:
        return next((one for one in self.fields if one.name == name), None)


def read_sample(path: Path) -> Sample:
    """The fields of the first events in a file."""
    readers: dict[str, Callable[[Path], Sample]] = {
        ".jsonl": _jsonl, ".json": _jsonl, ".ndjson": _jsonl, ".csv": _csv, ".tsv": _csv, ".parquet": _parquet,
    }  # fmt: skip
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise SampleRefused(path.name, f"its name ends with {path.suffix or 'nothing'!r}")
    try:
        sample = reader(path)
    except (OSError, ValueError, csv.Error) as error:
        raise SampleRefused(path.name, str(error).splitlines()[0] if str(error) else "it cannot be read") from None
    if not sample.fields:
        raise SampleRefused(path.name, "it has no events")
    return sample


def _jsonl(path: Path) -> Sample:
    columns: dict[str, list[Any]] = {}
    count = 0
    with path.open(encoding="utf-8-sig") as lines:
        for line in lines:
            if not line.strip() or count >= _ROWS:
                continue
            event = json.loads(line, parse_float=Decimal)
            if not isinstance(event, dict):
                raise ValueError("a line is not a JSON object")
            for name, value in event.items():
                if not name:  # cannot be declared; its value goes into `extra`
                    continue
                columns.setdefault(name, [None] * count).append(value)
            count += 1
            for values in columns.values():
                values += [None] * (count - len(values))
    return Sample("jsonl", ",", _fields(columns))


def _csv(path: Path) -> Sample:
    with path.open(encoding="utf-8-sig", newline="") as file:
        beginning = file.readline()
        delimiter = max(",;\t|", key=beginning.count)
        file.seek(0)
        rows = [row for _, row in zip(range(_ROWS), csv.DictReader(file, delimiter=delimiter), strict=False)]
    columns = {name: [row[name] or None for row in rows] for name in (rows[0] if rows else {}) if name}
    return Sample("csv", delimiter, _fields(columns))


def _parquet(path: Path) -> Sample:
    import pyarrow.parquet as pq

    table = pq.read_table(path).slice(0, _ROWS)
    found = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = stored_type(column.type)
        if kind is None:
            continue
        values = [value for value in column.to_pylist() if value is not None]
        example = str(values[0]) if values else ""
        unique = len(set(values)) == table.num_rows
        required = column.null_count == 0
        found.append(SampledField(identifier(name), name, declared_name(kind), None, "", required, unique, example))
    return Sample("parquet", ",", tuple(found))


def identifier(name: str) -> str:
    """A plain identifier that resembles a name: `Visit ID` becomes `visit_id`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    plain = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    return plain if plain and not plain[0].isdigit() else f"f_{plain}".rstrip("_")


def _fields(columns: dict[str, list[Any]]) -> tuple[SampledField, ...]:
    return tuple(_field(name, values) for name, values in columns.items())


def _field(name: str, values: list[Any]) -> SampledField:
    present = [value for value in values if value is not None and value != ""]
    kind, form, strip = _type(present)
    unique = bool(present) and len(present) == len(values) and len({repr(value) for value in present}) == len(present)
    required = bool(values) and len(present) == len(values)
    example = str(present[0]) if present else ""
    note = _COMMA_NOTE if kind == "string" and _has_decimal_comma(present) else ""
    return SampledField(identifier(name), name, kind, form, strip, required, unique, example[:40], note)


def _type(values: list[Any]) -> tuple[str, str | None, str]:
    """Type, format and characters to strip that suit all values."""
    if not values or any(isinstance(value, dict | list) for value in values):
        return "string", None, ""
    if all(isinstance(value, bool) for value in values):
        return "boolean", None, ""
    texts = [str(value) for value in values]
    number = _number(texts)
    leading_zeros = any(len(text) > 1 and text[0] == "0" and text.isdecimal() for text in texts)
    if number is not None and not leading_zeros:
        return number, None, ""
    moment = _moment(texts)
    if moment is not None:
        return (*moment, "")
    stripped = [_STRIPPED.sub("", text) for text in texts]
    number = _number(stripped) if all(_separates_thousands(text) for text in texts) else None
    if number is not None and not leading_zeros and stripped != texts:
        removed = "".join(sorted({one for text in texts for one in _STRIPPED.findall(text)}))
        return ("decimal(18,4)" if number == "bigint" else number), None, removed
    if all(text.lower() in ("true", "false") for text in texts):
        return "boolean", None, ""
    return "string", None, ""


def _separates_thousands(text: str) -> bool:
    """Whether the commas and spaces of a number, if it has any, stand between groups of digits."""
    bare = _CURRENCY.sub("", text).strip()
    return bool(_GROUPED.fullmatch(bare)) or not ("," in bare or " " in bare)


def _has_decimal_comma(values: list[Any]) -> bool:
    return bool(values) and all(_COMMA.fullmatch(_CURRENCY.sub("", str(value)).strip()) for value in values)


def _number(texts: Iterable[str]) -> str | None:
    texts = list(texts)
    if all(_NUMBER.fullmatch(text) and -(2**63) <= int(text) < 2**63 for text in texts):
        return "bigint"
    if all(_NUMBER.fullmatch(text) or _DECIMAL.fullmatch(text) for text in texts):
        return "decimal(18,4)"
    return "double" if all(_FLOAT.fullmatch(text) for text in texts) else None


def _moment(texts: list[str]) -> tuple[str, str | None] | None:
    if all(_parses(date.fromisoformat, text) and "-" in text for text in texts):
        return "date", None
    if all(_ISO_TIME.fullmatch(text) and _parses(datetime.fromisoformat, text) for text in texts):
        return "timestamp", None
    for form in FORMATS:
        if all(_parses(partial(_strptime, form), text) for text in texts):
            return ("timestamp" if "%H" in form else "date"), form
    return None


def _strptime(form: str, text: str) -> datetime:
    return datetime.strptime(text, form)


def _parses(reader: Callable[[str], object], text: str) -> bool:
    try:
        reader(text)
    except ValueError:
        return False
    return True

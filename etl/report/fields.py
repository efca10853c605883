"""The types of values in a report, validated on input.

Numbers are validated strictly (finite, not negative where that makes no sense). Any text is accepted: the
content of an event file must never prevent the report, so lone surrogates and undecodable bytes become
U+FFFD, and raw records are truncated. Names of folders and links have a short list of allowed characters.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

RAW_CHARACTERS = 300

_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,127}")
_RESERVED = frozenset({"index.html", "index.json", "latest.json"})
_RELATIVE = re.compile(r"(?![a-zA-Z][a-zA-Z0-9+.-]*:)(?![/\\])[^\x00-\x20\\]+")


def is_batch_name(name: str) -> bool:
    """Whether a batch name can be a folder name, on any system, and be used in a link."""
    return _SEGMENT.fullmatch(name) is not None and name not in _RESERVED


def _batch_name(name: str) -> str:
    if not is_batch_name(name):
        raise ValueError(f"{name!r} cannot name a folder; use letters, digits and . _ = - (at most 128)")
    return name


def _relative_link(link: str) -> str:
    if _RELATIVE.fullmatch(link) is None:
        raise ValueError(f"{link!r} is not a relative link; give a path relative to the report's own page")
    return link


def _well_formed(value: Any) -> Any:
    """Well-formed UTF-8 text from any text or bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return value


def _cut(text: str) -> str:
    return text if len(text) <= RAW_CHARACTERS else text[: RAW_CHARACTERS - 1] + "…"


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


Text = Annotated[str, BeforeValidator(_well_formed)]
RawText = Annotated[Text, AfterValidator(_cut)]
BatchName = Annotated[str, AfterValidator(_batch_name)]
RelativeLink = Annotated[str, AfterValidator(_relative_link)]
Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
Rows = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Age = Annotated[float, Field(allow_inf_nan=False)]  # an event's clock may run ahead of ours: ages may be negative
Ratio = Annotated[float, Field(ge=0, le=1)]

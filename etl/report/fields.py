"""The kinds of value a report is made of, checked where they enter it.

Numbers are held strictly (finite, not negative where that makes no sense). Text is taken as it comes:
what a stranger put into an event file must never keep the report from being written, so lone surrogates
and undecodable bytes become U+FFFD, and raw records are cut. Names that become folders and links are
allowed by a short list of characters.
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
    """Whether a batch name can be a folder beside our own files, on any system, and in a link."""
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
    """Text that UTF-8 can carry, from text or bytes that perhaps cannot."""
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

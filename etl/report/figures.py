"""Formatting of figures and foreign text, the same on every page.

A reader compares figures at a glance, so one quantity always has one form: `12,345`, `93.1 %`, `8.4 s`.
In foreign text, invisible and reordering characters are made visible here, and templates escape markup.
"""

from __future__ import annotations

import unicodedata
from datetime import datetime

NOTHING = "–"
_NBSP = "\u00a0"
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def number(value: int) -> str:
    """`12,345`."""
    return f"{value:,}"


def percent(ratio: float | None) -> str:
    """`93.1 %`. Only a true 0 or 1 is written as 0 or 100: one bad row in a million must not vanish."""
    if ratio is None:
        return NOTHING
    if ratio in (0.0, 1.0):
        return f"{ratio:.0%}".replace("%", f"{_NBSP}%")
    if ratio < 0.001:
        return f"<{_NBSP}0.1{_NBSP}%"
    return f"{min(ratio, 0.999):.1%}".replace("%", f"{_NBSP}%")


def share(part: int, whole: int) -> str:
    """`part` as a percentage of `whole`; nothing when there is no whole."""
    return percent(min(1.0, part / whole)) if whole else NOTHING


def duration(seconds: float | None) -> str:
    """`240 ms`, `8.4 s`, `3 min 05 s`, `2 h 10 min`, `3 d 4 h`: two parts at most."""
    if seconds is None:
        return NOTHING
    sign, rest = ("−" if seconds < 0 else ""), abs(seconds)
    if rest < 0.001:
        return f"<{_NBSP}1{_NBSP}ms" if rest else f"0{_NBSP}s"
    if rest < 0.9995:
        return f"{sign}{rest * 1000:.0f}{_NBSP}ms"
    if rest < 99.95:
        return f"{sign}{rest:.1f}{_NBSP}s"
    whole = round(rest)
    if whole < 3600:
        return f"{sign}{whole // 60}{_NBSP}min{_NBSP}{whole % 60:02d}{_NBSP}s"
    if whole < 86_400:
        return f"{sign}{whole // 3600}{_NBSP}h{_NBSP}{whole % 3600 // 60:02d}{_NBSP}min"
    return f"{sign}{whole // 86_400}{_NBSP}d{_NBSP}{whole % 86_400 // 3600}{_NBSP}h"


def span(seconds: float) -> str:
    """A declared length of time, exactly and without what is zero: `30 s`, `15 min`, `1 h 30 min`."""
    whole, parts = round(seconds), []
    if not whole or abs(seconds - whole) >= 0.001:
        return duration(seconds)
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if whole >= size:
            parts.append(f"{whole // size}{_NBSP}{unit}")
            whole %= size
    return " ".join(parts)


def counted(count: int, one: str, many: str) -> str:
    """`1 batch`, `1,200 batches`."""
    return f"{number(count)} {one if count == 1 else many}"


def moment(at: datetime) -> str:
    """`16 Nov 2026, 10:00:12 UTC`. The models hold UTC only."""
    return f"{at.day} {at:%b %Y, %H:%M:%S} UTC"


def visible(text: str) -> str:
    """Foreign text with its control, format and unassigned characters made visible: `‹U+202E›`."""
    return "".join(
        f"‹U+{ord(character):04X}›" if unicodedata.category(character) in _INVISIBLE else character
        for character in text
    )


def words(name: str) -> str:
    """A name from the code as words for a reader: `ingest_enrich` is `ingest + enrich`."""
    return {"ingest_enrich": "ingest + enrich"}.get(name, name.replace("_", " "))

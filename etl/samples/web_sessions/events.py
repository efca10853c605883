"""Web sessions as CSV files with a header, dirt included: the same seed gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from etl.samples.example import Expected, Mix, publish
from etl.samples.web_sessions.masters import COUNTRIES, campaign, host

Fields = dict[str, str]
HEADER = ("Session", "Visitor", "Site", "Country", "Campaign", "Started", "Billed", "Pages", "Revenue", "Device")
_DEVICES = ("desktop", "phone", "tablet", "")
_SPOILED: dict[str, tuple[str, Callable[[Fields], Fields]]] = {
    "no pages": ("pages_in_range", lambda row: row | {"Pages": "0"}),
    "month thirteen": ("started_at_invalid", lambda row: row | {"Started": "01/13/2026 10:00:00", "Billed": ""}),
    "before the web": ("started_at_not_too_old", lambda row: row | {"Started": "01/01/1980 00:00:00", "Billed": ""}),
    "words for money": ("revenue_invalid", lambda row: row | {"Revenue": "a lot"}),
    "no site": ("host_missing", lambda row: row | {"Site": ""}),
    "small letters": ("country_matches_pattern", lambda row: row | {"Country": row["Country"].lower()}),
    "toaster": ("device_in_set", lambda row: row | {"Device": "toaster"}),
    "billed before": ("billed_after_it_began", lambda row: row | {"Billed": "01.01.2015"}),
    "money for nothing": ("revenue_needs_pages", lambda row: row | {"Pages": "1", "Revenue": "$5.00"}),
}
MIX = Mix({way: reason for way, (reason, _) in _SPOILED.items()})


def generate(
    landing: Path, count: int, seed: int, start: datetime, *, hosts: int = 40, campaigns: int = 60, files: int = 2
) -> Expected:
    """Write `count` sessions that began in the hour before `start`; returns where they must end."""
    random = np.random.default_rng(seed)
    kinds = MIX.kinds(count, random)
    rows: list[Fields] = []
    good: list[int] = []
    for number, kind in enumerate(kinds):
        if kind in ("duplicate", "conflict"):
            row = dict(rows[good[int(random.integers(len(good)))]])
            row = row if kind == "duplicate" else row | {"Pages": str(int(row["Pages"]) + 1)}
        else:
            row = _session(number, seed, random, start, hosts, campaigns)
            row = row | {"Site": f"new{number}.example"} if kind == "waiting" else row
            row = _SPOILED[kind][1](row) if kind in _SPOILED else row
        if kind == "good":
            good.append(number)
        rows.append(row)
    for part, some in enumerate(np.array_split(np.arange(count), files)):
        lines = [";".join(HEADER), *(";".join(rows[number].values()) for number in some)]
        publish(landing, f"sessions-{seed}-{part:03}.csv", ("\n".join(lines) + "\n").encode())
    return MIX.expected(kinds)


def _session(
    number: int, seed: int, random: np.random.Generator, start: datetime, hosts: int, campaigns: int
) -> Fields:
    began = start - timedelta(seconds=int(random.integers(3600)))
    cents = int(random.integers(500_000)) if random.random() < 0.3 else 0
    known = random.random()
    return {
        "Session": f"s-{(seed << 24 | number) & 0xFFFFFFFF:08x}",
        "Visitor": f"v{random.integers(1000)}" if random.random() < 0.9 else "",
        "Site": host(int(random.integers(hosts))),
        "Country": COUNTRIES[int(random.integers(len(COUNTRIES)))],
        # Some sessions have no campaign, some one that nobody knows: both are accepted.
        "Campaign": "" if known < 0.4 else "C-gone" if known < 0.45 else campaign(int(random.integers(campaigns))),
        "Started": f"{began:%d/%m/%Y %H:%M:%S}",
        "Billed": f"{began + timedelta(days=1):%d.%m.%Y}" if cents else "",
        "Pages": str(2 + int(random.integers(40))),
        "Revenue": f"${cents / 100:,.2f}" if cents else "",
        "Device": _DEVICES[int(random.integers(len(_DEVICES)))],
    }

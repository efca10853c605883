"""Hostile lines and names through real batches: every line is accounted for, nothing is executed, pages escape."""

from __future__ import annotations

import json
import random
import string
from datetime import timedelta
from pathlib import Path

import pytest

from tests.faults.world import World
from tests.support.site import order

CANARY = "frontstage_hostile"
SCRIPT = f"<script>{CANARY}()</script>"
TEXTS = (
    SCRIPT, f"<img src=x onerror={CANARY}()>", "'; drop table etl.batch; --", '"; drop schema mart cascade; --',
    "${jndi:ldap://x}", "{{7*7}}", "{% raw %}", "$(touch CANARY)", "`touch CANARY`", "../../../etc/passwd",
    "\u202egnp.exe", "\ud7ff\uffff", "\x7f\x1b[31m",
    "frontstage-error:eyJraW5kIjoidGVybWluYWwifQ==:", "=cmd|' /C calc'!A0", "%s%n%x", "\\N", "NULL", "\t", "",
)  # fmt: skip
NUMBERS = (b"NaN", b"Infinity", b"-Infinity", b"1e999999", b"-0", b"9" * 400, b"1" + b"0" * 400 + b".5", b"0x10",
           b"1_000", b"00012", b".5", b"1e-400", b"9223372036854775808", b"-9223372036854775809",
           b"true", b"[]", b"{}")  # fmt: skip


def _line(number: int, draw: random.Random) -> bytes:
    """One hostile line; some of them are good orders with something odd beside them."""
    kind = number % 12
    good = order(10_000_000 + number, customer_id=1 + number % 10)
    if kind == 0:
        return json.dumps({**good, "note": draw.choice(TEXTS), draw.choice(TEXTS) or "x": 1}).encode()
    if kind == 1:
        field = draw.choice(["order_id", "customer_id", "quantity", "unit_price", "ordered_at"])
        return json.dumps({**good, field: draw.choice(TEXTS)}).encode()
    if kind == 2:
        return json.dumps({**good, "unit_price": "@"}).encode().replace(b'"@"', draw.choice(NUMBERS))
    if kind == 3:
        return bytes(draw.choices(range(256), k=draw.randrange(200))).replace(b"\n", b"\0")
    if kind == 4:
        depth = draw.choice([10, 500, 20_000])
        return b'{"order_id":' + b"[" * depth + b"]" * draw.choice([0, depth]) + b"}"
    if kind == 5:
        line = json.dumps(good).encode()
        return line[:-1] + b', "order_id": %d}' % draw.randrange(10)  # a key twice
    if kind == 6:
        line = bytearray(json.dumps(good).encode())
        line[draw.randrange(len(line))] = draw.choice([0, 0x80, 0xC0, 0xFF, 0x0D])
        return bytes(line)
    if kind == 7:
        line = json.dumps(good).encode()
        return line[: draw.randrange(len(line))]
    if kind == 8:
        return json.dumps({**good, "order_id": 1 + number % 50, "quantity": 1 + number % 3}).encode()
    if kind == 9:
        return b" " * draw.randrange(5) + draw.choice([b"", b"null", b"[]", b'"x"', b"0", b"{}", b"\xef\xbb\xbf{}"])
    return json.dumps(good).encode()


def _run(world: World) -> None:
    while world.run() is not None:
        pass


def _accounted(world: World, lines: int) -> None:
    counted = world.site.inventory()
    assert counted.faults == []
    assert counted.raw_lines == lines
    assert counted.fact + counted.quarantine + counted.backlog_open + counted.duplicates == lines
    assert counted.fact > 0
    assert world.site.execute("select count(*) from mart.orders") == [(counted.fact,)]


def _harmless(world: World) -> None:
    home = world.site.settings.home
    assert [path for path in home.rglob("*CANARY*") if path.parent != world.site.landing] == []
    assert not Path("CANARY").exists()
    pages = list(world.reports.rglob("*.html"))
    assert pages
    for page in pages:
        text = page.read_text()
        assert SCRIPT not in text, page
        assert f"onerror={CANARY}" not in text.replace("&lt;img src=x onerror=", ""), page


def _lines(world: World, count: int, seed: int) -> int:
    """Lands them in files of 10,000; gives how many lines are not white space alone: those are events."""
    draw, landed = random.Random(seed), 0
    for first in range(0, count, 10_000):
        lines = [_line(number, draw) for number in range(first, min(first + 10_000, count))]
        if first == 0:
            lines += [
                json.dumps(order(1, note="x" * 10_000_000)).encode(),
                b"\xff" * 10_000_000,
                b'{"a":"' + b"y" * 10_000_000,
            ]
        landed += sum(bool(line.strip()) for line in lines)
        world.site.land(f"hostile-{first}.jsonl", *lines)
    return landed


def test_hostile_lines(bare: World) -> None:
    lines = _lines(bare, 3_000, 1)
    _run(bare)
    _accounted(bare, lines)
    _harmless(bare)


@pytest.mark.full
def test_a_hundred_thousand_hostile_lines(bare: World) -> None:
    lines = _lines(bare, 100_000, 2)
    _run(bare)
    _accounted(bare, lines)
    _harmless(bare)


def _names(count: int) -> list[bytes]:
    """Names that a file system allows and a program may stumble over; no two are equal."""
    draw = random.Random(3)
    parts = [text.encode("utf-8", "surrogateescape").replace(b"/", b":").replace(b"\0", b"") for text in TEXTS]
    parts += [
        b"\n",
        b"\r",
        b"\xff\xfe",
        b"*",
        b"?",
        b"[a]",
        b"~",
        b"%00",
        b"%2e%2e%2f",
        b" ",
        b"\\",
        b"|",
        b"&",
        b";",
        b"-rf",
        b"#",
        b"'",
    ]
    names = {b"".join(draw.choices(parts, k=draw.randrange(1, 5)))[:180] for _ in range(3 * count)}
    letters = string.ascii_letters.encode()
    return sorted(bytes([letters[at % 52]]) + name + b"%d.jsonl" % at for at, name in enumerate(sorted(names)))[:count]


def _land_names(world: World, names: list[bytes]) -> None:
    for number, name in enumerate(names):
        world.land(name, order(number + 1, customer_id=1 + number % 10), b"broken")


def _named(world: World, count: int) -> None:
    names = _names(count)
    assert len(names) == len(set(names)) == count
    _land_names(world, names)
    _run(world)
    _accounted(world, 2 * count)
    _harmless(world)
    sources = set(world.site.rows("quarantine")["source_file"].to_pylist())
    assert len(sources) == count, "every file is told apart"
    world.site = world.site.later(timedelta(days=2))  # all of them are quiet then
    world.run()
    assert list(world.site.landing.iterdir()) == [], "all of them were put away"
    _accounted(world, 2 * count)


def test_hostile_names(bare: World) -> None:
    _named(bare, 60)


@pytest.mark.full
def test_a_thousand_hostile_names(bare: World) -> None:
    _named(bare, 1_000)

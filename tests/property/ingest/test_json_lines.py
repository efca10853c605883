"""JSON lines against Python's json and decimal: the same documents, the same values; and no input ever raises."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from etl.contract.model import Field
from etl.contract.words.types import arrow_type
from etl.ingest import lines
from etl.ingest.events import EXTRA, Events, parse_events
from etl.ingest.payload import payload_hash
from tests.support.event_lines import one, stream

FIELDS = (
    Field("a", arrow_type("bigint"), required=False),
    Field("b", arrow_type("decimal(18,4)"), required=False),
    Field("c", arrow_type("string"), required=False),
    Field("d", arrow_type("timestamp"), required=False),
    Field("e", arrow_type("double"), required=False, strip="$"),
    Field("f", arrow_type("boolean"), required=False),
    Field("g", arrow_type("date"), required=False, format="%d.%m.%Y"),
)
STREAM = stream(*FIELDS)
NAMES = st.sampled_from(["a", "b", "c", "d", "é", "", 'q"', "\\"]) | st.text(max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ALPHABET = st.sampled_from([*b'{}[]",:\\u0019.eE+-truefalsn \t\r\n', 0, 0xFF, 0xC3, 0xA9, 0xED, 0xA0, 0xEF, 0xBB, 0xBF])


def parse(data: bytes) -> Events:
    return parse_events(lines.split(data, 1), STREAM)


def check(events: Events, data: bytes) -> None:
    """One row per line that is not blank, and a batch that Arrow finds sound."""
    assert len(events) == sum(bool(line.strip()) for line in data.split(b"\n"))
    events.batch.validate(full=True)
    events.reasons.validate(full=True)
    assert len(events.raw) == len(events.line) == len(events.reasons) == len(payload_hash(events.batch)) == len(events)


@given(
    st.binary()
    | st.lists(ALPHABET).map(bytes)
    | st.lists(st.sampled_from([b'{"a":', b'"c":"', b"}", b",", b"1", b'"', b"\n"])).map(b"".join)
)
def test_any_bytes_give_one_row_per_line(data: bytes) -> None:
    check(parse(data), data)


@given(st.dictionaries(NAMES, VALUES, max_size=6), st.data())
def test_a_document_with_a_byte_changed_is_read_as_python_reads_it(
    document: dict[str, Any], data: st.DataObject
) -> None:
    text = bytearray(json.dumps(document, ensure_ascii=data.draw(st.booleans())).encode("utf-8", "surrogatepass"))
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] = data.draw(ALPHABET)
    line = bytes(text).replace(b"\n", b" ")
    events = parse(line)
    check(events, line)
    assert (set(events.reasons.to_pylist()[0]) & {"bad_utf8", "malformed_json"} == set()) == is_one_object(line)


def is_one_object(line: bytes) -> bool:
    """By Python's reader, which takes NaN and infinities; and with no declared field twice."""
    try:
        pairs = json.loads(line.decode(), object_pairs_hook=list, parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return False
    declared = (
        [name for name, _ in pairs if name in {field.name for field in FIELDS}] if isinstance(pairs, list) else []
    )
    return line.strip()[:1] == b"{" and len(declared) == len(set(declared))


@given(st.dictionaries(NAMES, VALUES, max_size=6), st.booleans(), st.sampled_from([None, 1]))
def test_documents_are_read_as_python_reads_them(
    document: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent).replace("\n", " ")
    line = text.encode("utf-8", "surrogatepass")
    row, reasons = parse(line).batch.to_pylist()[0], parse(line).reasons.to_pylist()[0]
    if reasons == ["bad_utf8"]:
        assert not ascii_only
        return
    declared = {field.name for field in FIELDS}
    rest = {name: value for name, value in document.items() if name not in declared}
    assert (None if row[EXTRA] is None else json.loads(row[EXTRA])) == (rest or None)
    if isinstance(text_value := document.get("c"), str):
        held = "\0" not in text_value and not any("\ud800" <= character <= "\udfff" for character in text_value)
        assert row["c"] == (text_value if held else None)
        assert ("c_invalid" in reasons) == (not held)


NUMBERS = st.builds(
    lambda digits, tail, places: Decimal(f"{digits}{tail}").scaleb(-places),
    st.integers(-(10**20), 10**20),
    st.sampled_from(["", "5", "49", "50", "4999999999999999999999", "9999"]),
    st.integers(-3, 30),
)


@given(st.decimals(allow_nan=False, allow_infinity=False) | NUMBERS, st.integers(0, 38), st.integers(1, 38))
@settings(max_examples=300)
def test_decimals_are_rounded_as_the_decimal_module_rounds(number: Decimal, scale: int, precision: int) -> None:
    scale = min(scale, precision)
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 200, 10**6, -(10**6)
        small = number.is_zero() or number.adjusted() < 50
        rounded = (
            number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP) if small and number.adjusted() > -100 else None
        )
        expected = (Decimal(0) if number.adjusted() <= -100 or number.is_zero() else rounded) if small else None
        fits = expected is not None and abs(expected) < Decimal(10) ** (precision - scale)
    assert one(str(number).encode(), f"decimal({precision},{scale})") == (
        (expected, []) if fits else (None, ["x_invalid"])
    )


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["{!r}", "{:.17e}", "{:.3f}", "{:.25g}"]))
def test_doubles_are_the_nearest_ones(number: float, form: str) -> None:
    text = form.format(number)
    assert one(text, "double") == (float(text), [])


@given(st.integers(-(2**70), 2**70), st.sampled_from([("int", 31), ("bigint", 63)]))
def test_integers_are_exact_or_refused(number: int, declared: tuple[str, int]) -> None:
    fits = -(2 ** declared[1]) <= number < 2 ** declared[1]
    assert one(number, declared[0]) == ((number, []) if fits else (None, ["x_invalid"]))


OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(
    st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31), timezones=OFFSETS),
    st.sampled_from("T "),
)
def test_iso_timestamps_are_read_as_python_reads_them(moment: datetime, separator: str) -> None:
    assert one(moment.isoformat(separator), "timestamp") == (moment.astimezone(UTC), [])


PATTERNS = st.sampled_from(
    ["%d.%m.%Y %H:%M:%S.%f %z", "%Y%m%d%H%M%S%f", "%b %d %Y %I:%M:%S %p", "%d %B %y, %H:%M", "%m/%d/%Y"]
)


@given(
    st.datetimes(min_value=datetime(1000, 1, 1), max_value=datetime(9998, 12, 31), timezones=OFFSETS),
    PATTERNS,
    st.data(),
)
@settings(max_examples=200)
def test_declared_formats_are_read_as_python_reads_them(moment: datetime, pattern: str, data: st.DataObject) -> None:
    text = moment.strftime(pattern)
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(text) - 1))
        text = text[:place] + data.draw(st.sampled_from("0159 :-+Zax.")) + text[place + data.draw(st.integers(0, 1)) :]
    value, reasons = one(text, "timestamp", format=pattern)
    try:
        read = datetime.strptime(text.strip(), pattern)
        expected = (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        expected = None
    assert (value, reasons) in [(expected, []), (None, ["x_invalid"])]
    if text == moment.strftime(pattern):
        assert value == expected

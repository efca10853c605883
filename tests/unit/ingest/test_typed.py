"""From text to the declared type: what is accepted, what is not, and what the value is."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from etl.contract.model import Field
from etl.contract.words.types import arrow_type
from etl.ingest.formats import FormatUnsupported, compile_format
from etl.ingest.typed import DefaultInvalid, default_value
from tests.support.event_lines import one


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type]


ACCEPTED: list[tuple[str, Any, Any]] = [
    ("int", 12, 12),
    ("int", "12", 12),
    ("int", " -12\t", -12),
    ("int", "+7", 7),
    ("int", b"-0", 0),
    ("int", "007", 7),
    ("int", 2**31 - 1, 2**31 - 1),
    ("int", -(2**31), -(2**31)),
    ("bigint", 2**63 - 1, 2**63 - 1),
    ("bigint", -(2**63), -(2**63)),
    ("bigint", "0" * 100 + "5", 5),
    ("decimal(18,4)", b"9.99", Decimal("9.9900")),
    ("decimal(18,4)", "1.00005", Decimal("1.0001")),
    ("decimal(18,4)", b"-1.00005", Decimal("-1.0001")),
    ("decimal(18,4)", b"1.00004999", Decimal("1.0000")),
    ("decimal(18,4)", b"1e3", Decimal("1000.0000")),
    ("decimal(18,4)", b"12E-1", Decimal("1.2000")),
    ("decimal(18,4)", b"99999999999999.9999", Decimal("99999999999999.9999")),
    ("decimal(18,4)", b"0e99999999999999999999", Decimal("0.0000")),
    ("decimal(18,4)", b"1e-99999999999999999999", Decimal("0.0000")),
    ("decimal(18,4)", "1234567890123456789012345e-20", Decimal("12345.6789")),
    ("decimal(18,4)", b"-0.0", Decimal("0.0000")),
    ("decimal(18,4)", b"0.00005", Decimal("0.0001")),
    ("decimal(18,4)", b"0.000049", Decimal("0.0000")),
    ("decimal(38,0)", 10**38 - 1, Decimal(10**38 - 1)),
    ("decimal(38,0)", 1 - 10**38, Decimal(1 - 10**38)),
    ("decimal(38,38)", b"0." + b"9" * 38, Decimal("0." + "9" * 38)),
    ("decimal(38,10)", b"18446744073709551616", Decimal(2**64)),
    ("decimal(2,1)", ".5", Decimal("0.5")),
    ("decimal(2,1)", "5.", Decimal("5.0")),
    ("double", b"0.1", 0.1),
    ("double", "1e300", 1e300),
    ("double", b"123456789.123456789123456789", 123456789.123456789),
    ("double", b"5e-324", 5e-324),
    ("double", b"0e999", 0.0),
    ("double", 7, 7.0),
    ("double", b"9007199254740993", 9007199254740992.0),
    ("boolean", True, True),
    ("boolean", False, False),
    ("boolean", "YES", True),
    ("boolean", "n", False),
    ("boolean", 1, True),
    ("boolean", " 0 ", False),
    ("date", "2026-11-17", date(2026, 11, 17)),
    ("date", "0001-01-01", date(1, 1, 1)),
    ("date", "9999-12-31", date(9999, 12, 31)),
    ("date", "2024-02-29", date(2024, 2, 29)),
    ("timestamp", "2026-11-17", at(2026, 11, 17)),
    ("timestamp", "2026-11-17T09:30Z", at(2026, 11, 17, 9, 30)),
    ("timestamp", "2026-11-17 09:30:15", at(2026, 11, 17, 9, 30, 15)),
    ("timestamp", "2026-11-17T09:30:15.1+02:00", at(2026, 11, 17, 7, 30, 15, 100_000)),
    ("timestamp", "2026-11-17T09:30:15.123456789-0530", at(2026, 11, 17, 15, 0, 15, 123_456)),
    ("timestamp", "2026-11-17T09:30:15+01", at(2026, 11, 17, 8, 30, 15)),
    ("timestamp", " 2026-11-17 ", at(2026, 11, 17)),
    ("timestamp", "0001-01-01T00:00:00Z", at(1, 1, 1)),
    ("timestamp", "9999-12-31T23:59:59.999999Z", at(9999, 12, 31, 23, 59, 59, 999_999)),
]

REFUSED: list[tuple[str, Any]] = [
    ("int", 2**31),
    ("int", -(2**31) - 1),
    ("bigint", 2**63),
    ("bigint", -(2**63) - 1),
    ("bigint", 10**40),
    ("int", 2.5),
    ("int", b"12.0"),
    ("int", b"1e3"),
    ("int", ""),
    ("int", "-"),
    ("int", "1 2"),
    ("int", "0x10"),
    ("int", True),
    ("int", [1]),
    ("int", "１２"),
    ("decimal(18,4)", 10**14),
    ("decimal(18,4)", b"99999999999999.99995"),
    ("decimal(18,4)", b"1e99999999999999999999"),
    ("decimal(18,4)", ""),
    ("decimal(18,4)", "."),
    ("decimal(18,4)", "1e"),
    ("decimal(18,4)", "1.2.3"),
    ("decimal(18,4)", "12,50 EUR"),
    ("decimal(18,4)", "NaN"),
    ("decimal(18,4)", "Infinity"),
    ("decimal(18,4)", True),
    ("decimal(18,4)", {}),
    ("decimal(2,2)", 1),
    ("decimal(38,0)", 10**38),
    ("double", b"1e400"),
    ("double", "inf"),
    ("double", "nan"),
    ("double", "1_000"),
    ("double", False),
    ("double", ""),
    ("boolean", "maybe"),
    ("boolean", 2),
    ("boolean", ""),
    ("boolean", "\x11"),
    ("boolean", []),
    ("date", "2026-02-29"),
    ("date", "2026-13-01"),
    ("date", "2026-11-17T00:00:00Z"),
    ("date", "2026-1-5"),
    ("date", 20261117),
    ("date", ""),
    ("date", "0000-01-01"),
    ("timestamp", "2026-11-17T24:00:00Z"),
    ("timestamp", "2026-11-17T09:60Z"),
    ("timestamp", "2026-11-17T09:30:60Z"),
    ("timestamp", "2026-11-17T09"),
    ("timestamp", "2026-11-17T09:30:15."),
    ("timestamp", "2026-11-17T09:30:15 UTC"),
    ("timestamp", "2026-11-17T09:30:15+24:00"),
    ("timestamp", "2026-11-17T09:30:15+1"),
    ("timestamp", "2026-11-17T09:30:15+01:"),
    ("timestamp", 1_700_000_000),
    ("timestamp", "10000-01-01"),
    ("timestamp", "0001-01-01T00:00:00+00:01"),
    ("timestamp", "9999-12-31T23:59:59-00:01"),
    ("timestamp", "2026-11-17T09:30:15Zx"),
    ("timestamp", "T"),
    ("timestamp", ""),
]


@pytest.mark.parametrize(("declared", "given", "value"), ACCEPTED)
def test_accepted(declared: str, given: Any, value: Any) -> None:
    assert one(given, declared) == (value, [])


@pytest.mark.parametrize(("declared", "given"), REFUSED)
def test_refused(declared: str, given: Any) -> None:
    assert one(given, declared) == (None, ["x_invalid"])
    assert one(given, declared, required=False, default=None) == (None, ["x_invalid"]), "optional is not lenient"


@pytest.mark.parametrize("lexeme", [b"null", b'null,"y":1'])
def test_null_is_missing_unless_the_field_is_optional_or_has_a_default(lexeme: bytes) -> None:
    assert one(lexeme, "int") == (None, ["x_missing"])
    assert one(lexeme, "int", required=False) == (None, [])
    assert one(lexeme, "int", default=7) == (7, [])


@pytest.mark.parametrize(
    ("declared", "default", "value"),
    [
        ("int", 3, 3),
        ("decimal(9,2)", "1.50", Decimal("1.50")),
        ("decimal(9,2)", 0.1, Decimal("0.10")),
        ("boolean", True, True),
        ("boolean", False, False),
        ("string", "", ""),
        ("date", "2026-11-17", date(2026, 11, 17)),
        ("double", 1.5, 1.5),
    ],
)
def test_defaults_are_read_like_values(declared: str, default: Any, value: Any) -> None:
    assert one(b"null", declared, default=default) == (value, [])


def test_a_default_of_another_type_is_an_error_of_the_declaration() -> None:
    with pytest.raises(DefaultInvalid, match="default 'many' of field 'x' is not a int32"):
        default_value(Field("x", arrow_type("int"), default="many"))


def test_a_default_does_not_hide_what_is_invalid() -> None:
    assert one("many", "int", default=7) == (None, ["x_invalid"])


@pytest.mark.parametrize(
    ("declared", "given", "strip", "value"),
    [
        ("decimal(9,2)", "1299.99$", "$", Decimal("1299.99")),
        ("decimal(9,2)", "€1,299.99 ", "€,", Decimal("1299.99")),
        ("int", "1'000", "'", 1000),
        ("string", "a-b-c", "-", "abc"),
        ("string", "äöü", "ö", "äü"),
        ("int", 5, "$", 5),
        ("string", "ab", "abc", ""),
    ],
)
def test_stripped_characters_are_removed_wherever_they_are(declared: str, given: Any, strip: str, value: Any) -> None:
    assert one(given, declared, strip=strip) == (value, [])


def test_nothing_left_after_stripping_is_no_number() -> None:
    assert one("$", "int", strip="$") == (None, ["x_invalid"])


@pytest.mark.parametrize(
    ("pattern", "text", "value"),
    [
        ("%d.%m.%Y", "17.11.2026", at(2026, 11, 17)),
        ("%d/%b/%Y:%H:%M:%S %z", "17/Nov/2026:09:30:15 +0100", at(2026, 11, 17, 8, 30, 15)),
        ("%m/%d/%y %I:%M %p", "1/5/26 12:05 am", at(2026, 1, 5, 0, 5)),
        ("%m/%d/%y %I:%M %p", "1/5/70 1:05 PM", at(1970, 1, 5, 13, 5)),
        ("%Y%m%d%H%M%S", "20261117093015", at(2026, 11, 17, 9, 30, 15)),
        ("%d %B %Y", "1 September 2026", at(2026, 9, 1)),
        ("%F %T.%f", "2026-11-17 09:30:15.25", at(2026, 11, 17, 9, 30, 15, 250_000)),
        ("%Y%%%m", "2026%11", at(2026, 11, 1)),
        ("%Y %m", "2026 \t 3", at(2026, 3, 1)),
        ("%Y-%j", "2024-366", at(2024, 12, 31)),
        ("%Y-%j", "2026-60", at(2026, 3, 1)),
    ],
)
def test_a_declared_format_reads_as_strptime_does(pattern: str, text: str, value: datetime) -> None:
    assert one(text, "timestamp", format=pattern) == (value, [])
    plain = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S"}
    for short, long in plain.items():
        pattern = pattern.replace(short, long)
    read = datetime.strptime(text, pattern)
    assert (read if read.tzinfo else read.replace(tzinfo=UTC)) == value


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("%d.%m.%Y", "2026-11-17"),
        ("%d.%m.%Y", "31.02.2026"),
        ("%d.%m.%Y", "17.11.2026 "[:9]),
        ("%d.%m.%Y", "17.11.2026x"),
        ("%I %p", "13 pm"),
        ("%I %p", "1 xm"),
        ("%B", "Sept"),
        ("%b", "x"),
        ("%H:%M", "24:00"),
        ("%z", "+01"),
        ("%Y-%j", "2026-366"),
        ("%Y-%j", "2024-000"),
        ("%f", ""),
        ("%Y", ""),
    ],
)
def test_what_has_another_form_is_invalid(pattern: str, text: str) -> None:
    assert one(text, "timestamp", format=pattern) == (None, ["x_invalid"])


def test_a_day_may_be_padded_with_a_space() -> None:
    assert one("Nov  7 2026", "date", format="%b %e %Y") == (date(2026, 11, 7), [])
    assert one("17Nov2026", "date", format="%e%b%Y") == (date(2026, 11, 17), [])


def test_a_default_is_in_iso_8601_and_undecorated_whatever_events_have() -> None:
    assert one(b"null", "date", format="%d.%m.%Y", default="2026-11-17") == (date(2026, 11, 17), [])
    assert one(b"null", "string", strip="-", default="a-b") == ("a-b", [])


def test_a_number_may_be_a_date_when_its_format_says_how() -> None:
    assert one(20261117, "date", format="%Y%m%d") == (date(2026, 11, 17), [])


def test_two_percent_signs_are_one_whatever_follows() -> None:
    assert one("%T 2026-11-17", "date", format="%%T %F") == (date(2026, 11, 17), [])


@pytest.mark.parametrize("pattern", ["%Q", "%Y-%", "%s"])
def test_an_unknown_directive_is_named(pattern: str) -> None:
    with pytest.raises(FormatUnsupported, match="allowed are %Y"):
        compile_format(pattern)

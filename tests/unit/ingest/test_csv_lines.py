"""CSV lines: columns by name, quotes by the book, one record a line."""

from __future__ import annotations

import json

import pytest

from etl.contract.model import Field
from etl.contract.words.types import arrow_type
from etl.ingest import lines
from etl.ingest.csv_lines import DelimiterUnsupported, ExtraTooLarge, split_header
from etl.ingest.events import EXTRA, Events, parse_events
from tests.support.event_lines import stream

FIELDS = (Field("id", arrow_type("int")), Field("note", arrow_type("string"), required=False))


def parsed(text: bytes, *fields: Field, delimiter: str = ",") -> Events:
    header, rest = split_header(lines.split(text, 1))
    return parse_events(rest, stream(*(fields or FIELDS), form="csv", delimiter=delimiter), header)


def test_columns_are_found_by_name_and_others_are_kept_as_json() -> None:
    events = parsed(b'\xef\xbb\xbfother, note ,id\r\n"x ""y""\\",a,7\r\n\r\n,,8\r\n')
    assert events.batch.to_pylist() == [
        {"id": 7, "note": "a", EXTRA: '{"other":"x \\"y\\"\\\\"}'},
        {"id": 8, "note": None, EXTRA: None},
    ]
    assert json.loads(events.batch.column(EXTRA)[0].as_py()) == {"other": 'x "y"\\'}
    assert events.line.tolist() == [2, 4]
    assert events.raw.to_pylist() == [b'"x ""y""\\",a,7', b",,8"]


@pytest.mark.parametrize(
    ("record", "note"),
    [
        (b"7,", None),
        (b'7,""', ""),
        (b'7,"a,b"', "a,b"),
        (b'7,"say ""hi"""', 'say "hi"'),
        (b'7," a "', " a "),
        (b"7, a ", " a "),
        ("7,grün".encode(), "grün"),
        (b'"7",""""', '"'),
    ],
)
def test_values(record: bytes, note: str | None) -> None:
    assert parsed(b"id,note\n" + record).batch.select(["id", "note"]).to_pylist() == [{"id": 7, "note": note}]


@pytest.mark.parametrize(
    "record", [b"7", b"7,a,b", b'7,"a', b'7,a"b', b'7,"a"b', b'"7,a', b'7,"', b'7,"a""', b'"7" ,a']
)
def test_wrong_columns_or_quotes_are_malformed(record: bytes) -> None:
    events = parsed(b"id,note\n" + record + b"\n1,x")
    assert events.reasons.to_pylist() == [["malformed_csv"], []]
    assert events.batch.to_pylist()[0] == {"id": None, "note": None, EXTRA: None}


def test_other_reasons_are_those_of_every_format() -> None:
    events = parsed(b'id,note\n,a\nx,a\n"",a\n1,\xff\n1,"a\x00b"\n1,' + b"y" * 70_000)
    assert events.reasons.to_pylist() == [
        ["id_missing"], ["id_invalid"], ["id_invalid"], ["bad_utf8"], ["note_invalid"], ["line_too_long"],
    ]  # fmt: skip


def test_a_declared_column_that_the_header_lacks_is_missing() -> None:
    assert parsed(b"note\na").reasons.to_pylist() == [["id_missing"]]


@pytest.mark.parametrize("header", [b"id,id", b'"id', b"\xff", b"id," + b"x" * 300, b"id," + b"\x01" * 250])
def test_under_an_unusable_header_every_line_is_malformed(header: bytes) -> None:
    assert parsed(header + b"\n1,2\n3,4").reasons.to_pylist() == [["malformed_csv"]] * 2


def test_two_fields_may_read_one_column() -> None:
    fields = (Field("id", arrow_type("int")), Field("text", arrow_type("string"), source="id"))
    assert parsed(b"id\n007", *fields).batch.to_pylist() == [{"id": 7, "text": "007", EXTRA: None}]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters(delimiter: str) -> None:
    text = f'id{delimiter}note\n1{delimiter}"a{delimiter},b"'.encode()
    assert parsed(text, delimiter=delimiter).batch.column("note").to_pylist() == [f"a{delimiter},b"]


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n", "§"])
def test_a_delimiter_is_one_character(delimiter: str) -> None:
    with pytest.raises(DelimiterUnsupported, match="give one ASCII character"):
        parsed(b"id\n1", delimiter=delimiter)


def test_an_empty_file_has_no_events() -> None:
    assert len(parsed(b"")) == len(parsed(b"id,note\n")) == 0


@pytest.mark.parametrize("record", [b"7", b"7" + b"," * 250, b"7" + b",x" * 250])
def test_wide_headers_of_long_names_bound_what_a_block_needs(record: bytes) -> None:
    header = b"id" + b"".join(b"," + b"n" * 240 + b"%03d" % number for number in range(250))
    events = parsed(header + b"\n" + (record + b"\n") * (200_000 // len(record)))
    assert set(map(tuple, events.reasons.to_pylist())) == ({("malformed_csv",)} if record == b"7" else {()})
    filled = json.loads(events.batch.column(EXTRA)[-1].as_py() or "{}")
    assert len(filled) == record.count(b"x")


def test_lines_whose_undeclared_columns_are_too_much_for_a_column_of_text_are_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("etl.ingest.csv_lines._LARGEST_EXTRA", 1_000)
    with pytest.raises(ExtraTooLarge, match=r"columns of 100 lines of CSV may need 3,330 bytes, .*; declare them, or"):
        parsed(b"id,x\n" + b"1,2\n" * 100)

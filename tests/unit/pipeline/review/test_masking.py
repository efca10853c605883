"""Reports show refused lines without their sensitive values, whatever is wrong with them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from etl.contract.load import load
from etl.pipeline.review.masking import HIDDEN, Masking
from etl.pipeline.tasks.plan import Places

FILE = """
name = "visits"
sensitive = ["guest"]
[stream]
source = { landing = "landing", format = "FORMAT", delimiter = ";" }
key = ["id"]
[stream.fields]
id = "bigint"
guest = { type = "string", from = "Guest" }
note = "string"
"""
LANDED = datetime(2026, 11, 17, 10, 0, 0, 123456, tzinfo=UTC)


def masking(tmp_path: Path, format: str, sensitive: str = '["guest"]') -> Masking:
    file = tmp_path / "visits.toml"
    text = FILE.replace("FORMAT", format).replace('["guest"]', sensitive)
    file.write_text(text if format == "csv" else text.replace(', delimiter = ";"', ""))
    pipeline = load(file, tmp_path)
    return Masking(pipeline, Places.under(tmp_path / "tables", pipeline.stream.source.landing, tmp_path / "archive"))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('{"id": 1e400, "Guest": "Ann \\"}", "note": NaN }', '{"id": 1e400, "Guest": "***", "note": NaN }'),
        ('{"Guest":{"first":"Ann","more":[1,2]},"id":7}', '{"Guest":"***","id":7}'),
        ('{"Guest":"Ann","Guest":"Bob"}', '{"Guest":"***","Guest":"***"}'),
        ('{"G\\u0075est": "Ann"}', '{"G\\u0075est": "***"}'),
        ('{"id": 1, "note": "Guest"}', '{"id": 1, "note": "Guest"}'),
        ("{}", "{}"),
        ('{"id": 1, "Guest": "An', HIDDEN),
        ('{"Guest": "Ann"}{"Guest": "Bob"}', HIDDEN),
        ('["Ann"]', HIDDEN),
        ("Ann was here", HIDDEN),
        ("", HIDDEN),
        ('{"Guest": "Ann",}', '{"Guest": "***",}'),
    ],
)
def test_members_of_an_object_are_masked_and_the_rest_stays_as_it_came(tmp_path: Path, line: str, shown: str):
    assert masking(tmp_path, "jsonl").masked(line.encode(), "a.jsonl", LANDED) == shown


def test_bytes_that_are_no_text_do_not_uncover_anything(tmp_path: Path):
    shown = masking(tmp_path, "jsonl").masked(b'{"Guest": "Ann\xff", "id": "\xfe"}', "a.jsonl", LANDED)
    assert shown == '{"Guest": "***", "id": "\ufffd"}'


def test_a_pipeline_without_sensitive_fields_shows_lines_as_they_came(tmp_path: Path):
    assert masking(tmp_path, "jsonl", "[]").masked(b"whatever \xff", "a.jsonl", LANDED) == "whatever \ufffd"


def landed(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    os.utime(path, ns=(0, int(LANDED.timestamp()) * 10**9 + 123456 * 1000))
    return path


@pytest.mark.parametrize("folder", ["landing", "archive/2026-11-17"])
def test_values_of_csv_are_masked_under_the_header_of_their_own_file(tmp_path: Path, folder: str):
    landed(tmp_path / folder, "a.csv", "\ufeffnote;Guest;id\nx;Ann;1\n")
    mask = masking(tmp_path, "csv")
    assert mask.masked(b'"x;y";Ann;1', "a.csv", LANDED) == '"x;y";***;1'
    assert mask.masked(b"x;Ann;1;2", "a.csv", LANDED) == HIDDEN
    assert mask.masked(b'x;"Ann;1', "a.csv", LANDED) == HIDDEN


def test_a_csv_line_whose_header_is_not_known_is_not_shown(tmp_path: Path):
    mask = masking(tmp_path, "csv")
    assert mask.masked(b"x;Ann;1", "a.csv", LANDED) == HIDDEN
    other = landed(tmp_path / "landing", "a.csv", "id;note;Guest\n")
    os.utime(other, (1, 1))  # another file under the same name
    assert mask.masked(b"x;Ann;1", "a.csv", LANDED) == HIDDEN
    landed(tmp_path / "landing", "b.csv", "id;note;visitor\n")
    assert mask.masked(b"x;Ann;1", "b.csv", LANDED) == HIDDEN

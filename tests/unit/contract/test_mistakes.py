"""Every mistake in a pipeline file is one sentence with the file, the line, what was given and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from etl.contract.errors import PipelineFileError
from etl.contract.load import load
from etl.contract.model import Topic

GOOD = """\
name = "visits"
schedule = "on_arrival"
deadline = "30s"
grace = "7d"
sensitive = ["person.phone"]

[stream]
source = { landing = "landing/visits", format = "csv", delimiter = ";" }
key = ["visit_id"]
event_time = "begun"

[stream.fields]
visit_id = "string"
person_id = "bigint"
pages = { type = "int", min = 1, max = 1000 }
spent = { type = "decimal(8,2)", min = 0.25, strip = "$," }
begun = { type = "timestamp", after = "2000-01-01", before = "now + 24h" }
kind = { type = "string", one_of = ["web", "app"], default = "web" }

[rules]
spent_or_short = "spent > 0 or pages < 5"
person_positive = { column = "person_id", min = 1 }

[master.person]
table = "postgres:crm.people"
on = { person_id = "id" }
columns = ["town", "phone"]
version = "updated_at"
history = "scd2"

[fact.measures]
per_page = "spent / pages"

[mart.visits]
columns = ["visit_id", "person.town", "per_page"]

[mart.daily]
group_by = { day = "date(begun)", town = "person.town" }
values = { visits = "count(*)", spent = "sum(spent)" }

[[expectations]]
type = "expect_column_mean_to_be_between"
column = "spent"
min_value = 1
"""

EXPECTED = ('mean_to_be_between"\ncolumn = "spent"\nmin_value = 1',)  # and what an expectation is replaced by

# What is replaced, by what, the line of the mistake, and words that its sentence must have.
MISTAKES = [
    ('name = "visits"', 'name = "Visits!"', 1, "'Visits!' cannot be the name of a pipeline; allowed are small letters"),
    ('name = "visits"', 'name = "master_data"', 1, "reserved are"),
    ('name = "visits"', 'name = "held"', 1, "'held' cannot be the name of a pipeline: reserved are backlog, benchmark"),
    ('name = "visits"', 'name = "correlations_broken"', 1, "reserved are"),
    ('name = "visits"', 'name = "broken_orders"', 1, "'broken_' are those of files with mistakes"),
    ('name = "visits"', "name = 5", 1, "name is 5, but must be a text"),
    ('grace = "7d"', 'grce = "7d"', 4, "'grce' is not a key of a pipeline; did you mean 'grace'?"),
    ('grace = "7d"', 'grace = "soon"', 4, "grace is 'soon', but must be a length of time such as '30s'"),
    ('deadline = "30s"', 'deadline = "0s"', 3, "deadline is '0s', but must be"),
    ('grace = "7d"', f'grace = "{"9" * 4_400}d"', 4, "but must be a length of time"),
    ('schedule = "on_arrival"', 'schedule = "99 * * * *"', 2, "'99 * * * *' is not one; allowed are on_arrival, none"),
    ('sensitive = ["person.phone"]', 'sensitive = ["person.fone"]', 5, "did you mean 'person.phone'?"),
    ('"landing/visits"', '"../visits"', 8, "must be a folder within `var`"),
    ('"landing/visits"', '"/visits"', 8, "must be a folder within `var`"),
    ('landing = "landing/visits", ', "", 8, "[stream.source] has no 'landing' and no 'topic'; it needs one of them"),
    ('landing = "landing/visits", ', 'landing = "landing/visits", topic = "v", ', 8, "give landing or topic, not both"),
    ('landing = "landing/visits"', 'landing = "landing/visits", start = "latest"', 8, "start is about a topic"),
    ('landing = "landing/visits"', 'topic = "all visits"', 8, "'all visits', but must be up to 249 letters"),
    ('landing = "landing/visits"', 'topic = ".."', 8, "'..', but must be up to 249 letters"),
    ('landing = "landing/visits"', 'topic = "v", servers = "me:secret@b"', 8, "must be 'host:port'"),
    ('landing = "landing/visits"', 'topic = "v", servers = "broker"', 8, "servers is 'broker', but must be"),
    ('landing = "landing/visits"', 'topic = "v", start = "first"', 8, "but must be one of 'earliest', 'latest'"),
    ('landing = "landing/visits"', 'topic = "v", on_loss = "go"', 8, "but must be one of 'stop', 'skip'"),
    ('landing = "landing/visits", format = "csv"', 'topic = "v", format = "parquet"', 8, "parquet is for files"),
    ('format = "csv"', 'format = "xml"', 8, "is 'xml', but must be one of 'jsonl', 'csv', 'parquet'"),
    ('format = "csv"', 'format = "jsonl"', 8, "only csv has one"),
    ('delimiter = ";"', 'delimiter = "é"', 8, "delimiter 'é' has another meaning in CSV, or is not ASCII; use , ;"),
    ('delimiter = ";"', 'delimiter = "\\u0000"', 8, "use , ; | or a tab"),
    ('delimiter = ";"', 'delimiter = "\\""', 8, "use , ; | or a tab"),
    ('delimiter = ";"', 'delimiter = ";;"', 8, "at most 1 character"),
    ('key = ["visit_id"]', 'key = ["visit"]', 9, "'visit' is not a field; did you mean 'visit_id'?"),
    ('key = ["visit_id"]', "key = []", 9, "must be not empty"),
    ('key = ["visit_id"]', 'key = ["visit_id", "visit_id"]', 9, "'visit_id' is there 2 times"),
    ('key = ["visit_id"]', 'key = ["visit_id", "kind"]', 9, "'kind' is part of the key, so it must be required"),
    ('key = ["visit_id"]\n', "", 7, "[stream] has no 'key'; it needs one"),
    ('event_time = "begun"', 'event_time = "pages"', 10, "it must be date or timestamp"),
    ('visit_id = "string"', 'visit_id = "varchar"', 13, "type 'varchar' is unknown; allowed are int, bigint"),
    ('visit_id = "string"', "visit_id = 5", 13, "stream.fields.visit_id is 5, but must be a text or a table"),
    ('visit_id = "string"', 'visit_id = { typ = "string" }', 13, "'typ' is not a key of [stream.fields.visit_id]"),
    ('visit_id = "string"', 'visit_id = "string"\nbatch = "int"', 14, "'batch' cannot be the name of a field"),
    ('visit_id = "string"', 'visit_id = "string"\nVisit = "int"', 14, "'Visit' cannot be the name of a field"),
    ('visit_id = "string"', 'visit_id = { type = "string", pattern = "[" }', 13, "not a regular expression of RE2"),
    ('visit_id = "string"', 'visit_id = { type = "string", min = 1 }', 13, "numbers have min and max"),
    ('visit_id = "string"', 'visit_id = { type = "string", format = "%Y" }', 13, "only date and timestamp fields"),
    ("min = 1, max = 1000", "min = 1000, max = 1", 15, "min 1000 and max 1: no value lies between them"),
    ("min = 1, max = 1000", 'min = "a"', 15, "min of 'pages' is 'a', but must be a whole number"),
    ("min = 1, max = 1000", "min = 3_000_000_000", 15, "a whole number from -2147483648 to 2147483647"),
    ("min = 1, max = 1000", "max = inf", 15, "stream.fields.pages.max is inf, but must be a finite number"),
    ("min = 1, max = 1000", "max = [1]", 15, "pages.max is [1], but must be a number, a text, a date, a date with a"),
    ("min = 1, max = 1000", "required = 1.50", 15, "pages.required is 1.50, but must be true or false"),
    ("min = 1, max = 1000", "min = 1.5", 15, "min of 'pages' is 1.5, but must be a whole number"),
    ("min = 0.25, strip", 'min = "x", strip', 16, "min of 'spent' is 'x', but must be a number"),
    ('after = "2000-01-01"', 'after = "2000-13-01"', 17, "must be a time such as 2000-01-01T00:00:00Z, or relative"),
    ('before = "now + 24h"', 'before = "9999-12-31T23:59:59-05:00"', 17, "a time whose year in UTC is one"),
    ('after = "2000-01-01"', "after = 0001-01-01T00:00:00+14:00", 17, "a time whose year in UTC is one"),
    ('after = "2000-01-01"', "after = 10:00:00", 17, "begun.after is 10:00:00, but must be a number, a text, a date"),
    ('before = "now + 24h"', 'before = "now + soon"', 17, "or relative to the batch such as 'now + 24h'"),
    ('before = "now + 24h"', 'format = "%H:%M"', 17, "'%H:%M' names no day, as it lacks a year (%Y) and a month (%m)"),
    ('before = "now + 24h"', 'format = "%d/%m"', 17, "'%d/%m' names no day, as it lacks a year (%Y); allowed are"),
    ('before = "now + 24h"', 'format = "%Y-%m"', 17, "it lacks a day (%d)"),
    ('before = "now + 24h"', 'format = "%%"', 17, "names no day"),
    ('before = "now + 24h"', 'format = "%%Y-%m-%d"', 17, "it lacks a year (%Y)"),
    ('before = "now + 24h"', 'format = "%Y%j%"', 17, "% in '%Y%j%' is not a part of a date's format"),
    ('before = "now + 24h"', 'format = "%d/%Q"', 17, "%Q in '%d/%Q' is not a part of a date's format"),
    ('before = "now + 24h"', "required = 1", 17, "stream.fields.begun.required is 1, but must be true or false"),
    ('default = "web"', "default = 5", 18, "a value of string is 5, but must be a text"),
    ('default = "web"', 'default = "web", required = true', 18, "has a default, so it cannot be required"),
    ('["web", "app"]', '["web", "web"]', 18, "has a value twice"),
    ("spent > 0 or pages < 5", "spent > 0 or page < 5", 21, "'page' is not a column; did you mean 'pages'?"),
    ("spent > 0 or pages < 5", "spent >", 21, "rule 'spent_or_short': it cannot be read"),
    ("spent > 0 or pages < 5", " or ".join(["pages = 1"] * 250), 21, "rule 'spent_or_short': it is nested too deeply"),
    ("spent > 0 or pages < 5", "(" * 50 + "spent > 0" + ")" * 50, 21, "it is nested too deeply; compare with a list"),
    ("sum(spent)", "sum(" + "+".join(["spent"] * 900) + ")", 39, "it is nested too deeply"),
    ("spent > 0 or pages < 5", "spent + 1", 21, "bool is needed"),
    ("spent > 0 or pages < 5", "spent > 'a'", 21, "rule 'spent_or_short'"),
    ("spent > 0 or pages < 5", "person.town = 'Ulm'", 21, "'person.town' is not a column"),
    ("spent_or_short =", "pages_in_range =", 21, "there are two rules called 'pages_in_range'"),
    ("spent_or_short =", "pages_missing =", 21, "'pages_missing' is a reason that exists already"),
    ('{ column = "person_id", min = 1 }', "true", 22, "rules.person_positive is true, but must be a text or a table"),
    ('column = "person_id", min = 1', 'column = "persn_id", min = 1', 22, "did you mean 'person_id'?"),
    ('column = "person_id", min = 1', 'column = "person_id"', 22, "demands nothing; give it one of min"),
    ('column = "person_id", min = 1', "min = 1", 22, "rule 'person_positive' says no column"),
    ('{ column = "person_id", min = 1 }', '{ sql = "true", min = 1 }', 22, "has sql and min; give it one of them"),
    ("[master.person]", "[master.pages]", 24, "'pages' is the name of a field and of a master"),
    ("[master.person]", "[master.date]", 24, "'date' cannot be the name of a master: reserved"),
    ('"postgres:crm.people"', '"mysql:crm.people"', 25, "`postgres:schema.table` or `delta:path`"),
    ('"postgres:crm.people"', '"postgres:people"', 25, "must name schema and table"),
    ('"postgres:crm.people"', '"delta:../people"', 25, "a path without '..'"),
    ('{ person_id = "id" }', '{ persn_id = "id" }', 26, "'persn_id' is not a field; did you mean 'person_id'?"),
    ('{ person_id = "id" }', "{}", 26, "must be not empty"),
    ('{ person_id = "id" }', '{ person_id = "id", pages = "id" }', 26, "'id' is there 2 times"),
    ('["town", "phone"]', '["town", "id"]', 27, "'id' is a key column of 'person'"),
    ('["town", "phone"]', '["town", "phone", "town"]', 27, "'town' is there 2 times"),
    ('version = "updated_at"\n', "", 28, "history 'scd2' of 'person' needs a column that dates rows"),
    ('history = "scd2"', 'history = "scd3"', 29, "must be one of 'scd1', 'scd2', 'none'"),
    ('history = "scd2"', 'requird = false', 29, "did you mean 'required'?"),
    ("spent / pages", "spent / nothing", 32, "measure 'per_page': 'nothing' is not a column"),
    ("spent / pages", "person.tawn", 32, "did you mean 'person.town'?"),
    ("spent / pages", "no_such(spent)", 32, "function no_such() is not available"),
    ("per_page =", "spent =", 32, "the fact would have two columns called 'spent'"),
    ("per_page =", "person_key =", 32, "the fact would have two columns called 'person_key'"),
    ('"visit_id", "person.town", "per_page"', '"person.town"', 35, "needs the event's key among its columns"),
    ('"person.town", "per_page"', '"person.town", "person.town"', 35, "column 'person_town' is there twice"),
    ('"person.town", "per_page"', '"person.tow"', 35, "did you mean 'person.town'?"),
    ('values = { visits = "count(*)", spent = "sum(spent)" }', "", 37, "needs either columns (a row per event), or"),
    ('"sum(spent)"', '"avg(spent)"', 39, "allowed are count(*), count(x), sum(x), min(x), max(x)"),
    ('"sum(spent)"', '"sum(kind)"', 39, "sum adds numbers"),
    ('"sum(spent)"', '"spent"', 39, "'spent' is not an aggregate"),
    ("visits = \"count(*)\"", "town = \"count(*)\"", 39, "has a group and a value called 'town'"),
    ("expect_column_mean_to_be_between", "expect_column_mean_between", 42, "did you mean 'expect_column_mean_to"),
    ('column = "spent"\n', 'column = "spend"\n', 43, "'spend' is not a column of the fact; did you mean 'spent'?"),
    ('column = "spent"\n', "", 41, "expect_column_mean_to_be_between has no 'column'; it needs one"),
    (
        'on = { person_id = "id" }', 'on = { begun = "id" }', 26,
        "'begun' is timestamp and cannot be looked up by; use int, bigint, or string with a column of text",
    ),
    ("min_value = 1", "min_valu = 1", 44, "did you mean 'min_value'?"),
    ("min_value = 1", 'severity = "bad"', 44, "severities are critical, warning, info"),
    ('columns = ["visit_id", "person.town", "per_page"]', "columns = 5", 35, "is 5, but must be a list or a table"),
    ("min_value = 1", 'min_value = "a"', 44, "min_value is 'a', but must be a number"),
    ("min_value = 1", "min_value = [1]", 44, "min_value is [1], but must be a number"),
    ("min_value = 1", "min_value = true", 44, "min_value is True, but must be a number"),
    ("min_value = 1", "min_value = nan", 44, "min_value is nan, but must be a number"),
    ("min_value = 1", "min_value = 2020-01-01", 44, "min_value is '2020-01-01', but must be a number"),
    ("min_value = 1", "min_value = 5\nmax_value = 1", 44, "min_value is greater than max_value"),
    ("min_value = 1", "strict_min = 1", 44, "strict_min is 1, but must be true or false"),
    ('column = "spent"\nmin', 'column = ["spent"]\nmin', 43, "column is ['spent'], but must be one column"),
    ('column = "spent"\nmin', 'column = "kind"\nmin', 43, "'kind' is string, and expect_column_mean_to_be_between is"),
    ('column = "spent"\nmin', 'column = "begun"\nmin', 44, "min_value is 1, but must be a date or time"),
    (*EXPECTED, 'sum_to_be_between"\ncolumn = "begun"\nmin_value = 1', 43, "is about numbers"),
    (*EXPECTED, 'values_to_be_between"\ncolumn = "spent"', 41, "has no 'min_value' and no 'max_value'"),
    (*EXPECTED, 'values_to_match_regex"\ncolumn = "kind"\nregex = "("', 44, "'(', which is no regular expression of"),
    (*EXPECTED, 'values_to_match_regex"\ncolumn = "kind"\nregex = 1', 44, "regex is 1, but must be text"),
    (*EXPECTED, 'values_to_match_regex_list"\ncolumn = "kind"\nregex_list = []', 44, "but must be a list of texts"),
    (*EXPECTED, 'values_to_be_in_set"\ncolumn = "pages"\nvalue_set = 1', 44, "but must be a list of values"),
    (*EXPECTED, 'values_to_be_in_set"\ncolumn = "pages"\nvalue_set = ["1"]', 44, "'1' is in the set, but"),
    (*EXPECTED, 'values_to_be_in_set"\ncolumn = "begun"\nvalue_set = ["x"]', 44, "must be a date or time"),
    (*EXPECTED, 'quantile_values_to_be_between"\ncolumn = "spent"\nquantile_ranges = { quantiles = [2] }', 44, "[l"),
    (*EXPECTED, 'value_lengths_to_equal"\ncolumn = "kind"\nvalue = 1.5', 44, "value is 1.5, but must be a whole numb"),
    (*EXPECTED, 'pair_values_to_be_equal"\ncolumn_A = "kind"\ncolumn_B = "kind"\nignore_row_if = "x"', 45, "choices a"),
    (*EXPECTED, 'pair_values_a_to_be_greater_than_b"\ncolumn_A = "kind"\ncolumn_B = "pages"', 44, "of two kinds"),
    ('columns = ["town", "phone"]', 'columns = ["town", "valid_to"]', 27, "'dim_person' would have two columns called"),
    ('columns = ["town", "phone"]', 'columns = ["town", "Person_Key"]', 27, "two columns called 'person_key'"),
    (*EXPECTED, 'pair_values_to_be_in_set"\ncolumn_A = "kind"\ncolumn_B = "begun"\nvalue_pairs_set = []', 44, "about"),
    ('columns = ["town", "phone"]', 'columns = ["town", "ID"]', 27, "two columns called 'id'"),
    ('history = "scd2"\n\n[fact.measures]', 'history = "none"\n[fact.measures]\nperson_town = "1"', 31, "person_town"),
    ("[rules]", "[rules", 20, "not TOML"),
    ('grace = "7d"', 'grace = "7d"\ngrace = "8d"', 5, "not TOML: Cannot overwrite a value"),
]  # fmt: skip


def written(folder: Path, text: str, name: str = "visits.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(("given", "instead", "line", "words"), MISTAKES, ids=[one[3][:60] for one in MISTAKES])
def test_a_mistake_is_one_sentence_with_file_and_line(tmp_path: Path, given: str, instead: str, line: int, words: str):
    assert GOOD.count(given) >= 1
    path = written(tmp_path, GOOD.replace(given, instead, 1))
    with pytest.raises(PipelineFileError) as caught:
        load(path, tmp_path)
    sentence = str(caught.value)
    assert sentence.startswith(f"visits.toml, line {line}: ")
    assert words in sentence
    assert "\n" not in sentence
    assert caught.value.exit_code == 78


def test_the_file_without_mistakes_is_loaded(tmp_path: Path):
    pipeline = load(written(tmp_path, GOOD), tmp_path)
    assert pipeline.name == "visits"
    assert pipeline.stream.source.landing == tmp_path / "landing/visits"
    assert dict(pipeline.mart[0].columns) == {
        "visit_id": "`visit_id`", "person_town": "`person`.`town`", "per_page": "`per_page`",
    }  # fmt: skip
    assert pipeline.masters[0].columns == ("town", "phone", "updated_at")  # scd2 reads what dates its rows


def test_a_topic_takes_the_place_of_a_folder(tmp_path: Path):
    source = 'topic = "visits.eu", servers = "a:9092,b-1.example:9093", tombstones = "skip"'
    stream = load(written(tmp_path, GOOD.replace('landing = "landing/visits"', source)), tmp_path).stream
    assert stream.source.topic == Topic("visits.eu", "a:9092,b-1.example:9093", tombstones="skip")
    assert stream.source.landing == tmp_path / "landing/visits.kafka"


def test_a_file_that_is_not_text_or_not_there_is_a_sentence(tmp_path: Path):
    path = tmp_path / "bytes.toml"
    path.write_bytes(b'name = "a"\ngrace = "\xff"\n')
    with pytest.raises(PipelineFileError, match=r"bytes.toml, line 2: the file is not UTF-8"):
        load(path, tmp_path)
    with pytest.raises(PipelineFileError, match="cannot be read: No such file"):
        load(tmp_path / "absent.toml", tmp_path)

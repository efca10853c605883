"""What a user may get wrong in a file is one sentence with file and line; a change that state cannot follow is too."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from etl.contract.errors import PipelineFileError
from etl.streams import declared
from etl.streams.publishing import ResultsTaken
from etl.streams.state.change import CorrelationChanged
from etl.streams.tasks.in_process import InProcess
from etl.streams.views import ViewTaken
from tests.support.correlate_histories import EPOCH
from tests.support.stream_site import FIELDS, StreamSite, quiet

SQL = "select l.id as a, r.id as b from l join r on l.k = r.k"


@pytest.fixture
def site(tmp_path: Path, database: str) -> StreamSite:
    return StreamSite.under(tmp_path, database, InProcess())


def mistake(site: StreamSite) -> str:
    (error,) = site.steps.check()
    return str(error)


@pytest.mark.parametrize(
    ("sql", "options", "sentence"),
    [
        ("select l.id from l join nobody on l.k = 1", {}, "line 2: there is no stream 'nobody'; there are l, r, u"),
        ("select l.id as a\nfrom l join r on l.k = r.nothing", {}, "line 3: "),
        ("select l.id as a from l join r on l.k = r.s", {}, "line 2: "),
        ("select l.id as a from l left join r on l.k = r.k", {}, "inner joins only"),
        ("select l.t - r.t as apart from l join r on l.k = r.k", {}, "which no table can hold; cast it"),
        ("select l.id as `a b` from l join r on l.k = r.k", {}, "'a b' cannot be a column of a table"),
        ("select l.id as a, r.id as A from l join r on l.k = r.k", {}, "that differ in more than case"),
        (SQL, {"within": "0s"}, "line 1: within is '0s', but must be a length of time"),
        (SQL, {"within": "soon"}, "line 1: within is 'soon'"),
        (SQL, {"lateness": "-1s"}, "line 1: lateness is '-1s'"),
        (SQL, {"routing": "contrand"}, "needs subgroups = [left, right]"),
        (SQL, {"routing": "hash", "subgroups": [1, 1]}, "only contrand has"),
        (SQL, {"routing": "contrand", "units": 2, "subgroups": [3, 1]}, "at most one per unit"),
        (SQL, {"units": [1, 2, 3]}, "must be a number or [left, right]"),
        (SQL, {"capacity": "much"}, "capacity is 'much', but must be a size such as '64MiB'"),
        (SQL, {"witin": "5s"}, "'witin' is not a key of a correlation; did you mean 'within'?"),
        ("select l.id from l join r on l.x < r.x", {"routing": "hash"}, "hash without an equality is not possible"),
        (SQL + " and r.t > l.t and r.t < l.t", {}, "window"),
        (SQL + " and l.k = 1" * 300, {}, "it is nested too deeply"),
        (SQL.replace("l.id", "(" * 60 + "l.id" + ")" * 60), {}, "it is nested too deeply"),
        (SQL, {"within": "9" * 4_400 + "s"}, "but must be a length of time"),
        (SQL, {"capacity": "9" * 4_400 + "MiB"}, "but must be a size"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_correlation_is_one_sentence_with_its_line(
    site: StreamSite, sql: str, options: dict[str, Any], sentence: str
) -> None:
    site.declare("wrong", sql, **options)
    assert mistake(site).startswith("wrong.toml, line ")
    assert sentence in mistake(site)


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (('event_time = "t"\n', ""), "[stream] has no 'event_time'; it needs one"),
        (('event_time = "t"', 'event_time = "when"'), "'when' is not a field"),
        (('event_time = "t"', 'event_time = "k"'), "it must be date or timestamp"),
        (('t = "timestamp"', 't = { type = "timestamp", required = false }'), "windows need it, so make it required"),
        (("[stream]", 'future = "later"\n[stream]'), "future is 'later'"),
        (("[stream]", "future = " + "[" * 2_000 + "]" * 2_000 + "\n[stream]"), "nested more than 32 deep"),
        (("landing/r", "landing/l"), "landing 'l' is where stream 'l' reads already"),
        (("landing/r", "landing/orders"), "landing is where pipeline 'orders' reads already"),
        (('k = { type = "bigint"', 'k = { type = "number"'), "type 'number' is unknown"),
    ],
)
def test_a_mistake_in_a_stream_is_one_sentence_with_its_line(
    site: StreamSite, edit: tuple[str, str], sentence: str
) -> None:
    file = site.settings.streams / "r.toml"
    text = file.read_text()
    assert edit[0] in text
    file.write_text(text.replace(*edit))
    assert mistake(site).startswith("r.toml, line ")
    assert sentence in mistake(site)


def run_once(site: StreamSite) -> None:
    site.land("l", "1", [{"id": 1, "k": 1, "t": EPOCH}])
    site.land("r", "1", [{"id": 2, "k": 1, "t": EPOCH}])
    site.run()
    site.land("l", "2", [{"id": 3, "k": 1, "t": EPOCH}])


@pytest.mark.parametrize(
    ("sql", "options"),
    [
        (SQL + " and l.x = r.x", {}),
        (SQL, {"within": "31s"}),
        (SQL, {"within": None}),
        (SQL, {"lateness": "6s"}),
        (SQL, {"units": 3}),
        (SQL, {"routing": "random"}),
        (SQL, {"period": "1s"}),
    ],
)
def test_a_change_that_state_cannot_follow_is_refused_before_anything_is_read(
    site: StreamSite, sql: str, options: dict[str, Any]
) -> None:
    first = {"within": "30s", "lateness": "5s"}
    site.declare("pairs", SQL, **first)
    run_once(site)
    site.declare("pairs", sql, **{**first, **options})
    with pytest.raises(CorrelationChanged, match="frontstage correlate reset pairs"):
        site.run()
    site.declare("pairs", SQL, **first)
    assert site.run()["correlations"]["pairs"]["pairs"] == 1


def test_layout_of_the_sql_less_lateness_and_another_capacity_are_followed(site: StreamSite) -> None:
    site.declare("pairs", SQL, within="30s", lateness="5s")
    run_once(site)
    site.declare("pairs", SQL.replace(" from", "\n  FROM"), within="30s", lateness="4s", capacity="1GiB", elastic=False)
    assert site.run()["correlations"]["pairs"]["pairs"] == 1


def test_a_correlation_that_is_reset_starts_anew(site: StreamSite) -> None:
    site.declare("pairs", SQL, within="30s")
    run_once(site)
    site.steps.reset("pairs", quiet)
    site.declare("pairs", SQL, within="60s")
    assert site.run()["correlations"]["pairs"]["pairs"] == 0
    site.land("r", "3", [{"id": 4, "k": 1, "t": EPOCH}])
    assert site.run()["correlations"]["pairs"]["pairs"] == 1


def test_a_type_that_a_correlation_uses_does_not_change_under_it(site: StreamSite) -> None:
    site.declare("pairs", SQL, within="30s")
    run_once(site)
    site.declare_stream("r", fields=FIELDS.replace('k = { type = "bigint"', 'k = { type = "int"'))
    with pytest.raises(CorrelationChanged, match="cannot change types"):
        site.run()


def test_a_field_that_is_added_to_a_stream_is_null_in_what_was_read_before(site: StreamSite) -> None:
    site.declare("pairs", SQL, within="30s")
    run_once(site)
    site.declare_stream("r", fields=FIELDS + 'note = { type = "string", required = false }\n')
    site.declare("notes", "select l.id as a, r.note from l join r on l.k = r.k", within="30s")
    site.land("r", "3", [{"id": 4, "k": 1, "note": "new", "t": EPOCH}])
    site.run()
    assert site.table("notes").to_pylist() == [{"a": 3, "note": "new"}]
    assert site.table("pairs").num_rows == 4


def test_a_correlation_that_has_run_and_is_broken_now_holds_the_batch(site: StreamSite) -> None:
    site.declare("pairs", SQL, within="30s")
    run_once(site)
    site.declare("pairs", "select nonsense", within="30s")
    with pytest.raises(PipelineFileError, match=r"pairs\.toml, line 3"):
        site.run()
    site.declare("pairs", SQL, within="30s")
    assert site.run()["correlations"]["pairs"]["pairs"] == 1


def test_a_correlation_that_never_ran_and_is_broken_leaves_the_others_alone(site: StreamSite) -> None:
    site.declare("pairs", SQL, within="30s")
    site.declare("broken", "select nonsense")
    run_once(site)
    assert site.run()["correlations"]["pairs"]["pairs"] == 1


def test_a_clock_far_ahead_is_quarantined_and_expires_nobodys_state(site: StreamSite) -> None:
    site.declare("pairs", SQL, within="30s", lateness="0s")
    now = site.steps.clock()
    site.land("l", "1", [{"id": 1, "k": 1, "t": now}])
    site.run()
    site.land("l", "2", [{"id": 2, "k": 1, "t": now + dt.timedelta(days=3650)}])
    site.land("r", "2", [{"id": 3, "k": 1, "t": now + dt.timedelta(days=3650)}, {"id": 4, "k": 1, "t": now}])
    site.run()
    assert site.table("pairs").to_pylist() == [{"a": 1, "b": 4}]
    assert site.quarantine("l").to_pylist()[0]["reasons"] == ["event_time_in_bounds"]


def test_a_tuple_too_long_ago_is_quarantined_when_the_stream_says_so(site: StreamSite) -> None:
    site.declare_stream("l", extra='past = "2 days"')
    site.declare("pairs", SQL, within="30s", lateness="7d")
    old = EPOCH - dt.timedelta(days=3)
    site.land("l", "1", [{"id": 1, "k": 1, "t": old}, {"id": 2, "k": 1, "t": EPOCH}])
    site.land("r", "1", [{"id": 3, "k": 1, "t": old}, {"id": 4, "k": 1, "t": EPOCH}])
    site.run()
    assert site.quarantine("l")["key"].to_pylist() == ['["1"]']
    assert site.table("pairs").to_pylist() == [{"a": 2, "b": 4}]


def test_a_reset_correlation_that_returns_other_columns_does_not_write_into_the_old_table(site: StreamSite) -> None:
    site.declare("pairs", SQL, within="30s")
    site.declare("sums", "select l.k, count(*) as n from l join r on l.k = r.k group by l.k", within="30s")
    run_once(site)
    for name in ("pairs", "sums"):
        site.steps.reset(name, quiet)
    site.declare("pairs", SQL.replace("r.id", "r.s"), within="30s")
    with pytest.raises(ResultsTaken, match="give the correlation another name"):
        site.run()
    site.declare("pairs", SQL, within="30s")
    site.declare("sums", "select l.x, count(*) as n from l join r on l.k = r.k group by l.x", within="30s")
    with pytest.raises(ViewTaken, match="or drop the table"):
        site.run()


def test_an_error_that_nobody_has_foreseen_is_a_mistake_of_one_correlation(
    site: StreamSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(one: Any, streams: Any) -> PipelineFileError | None:
        if one.name == "wrong":
            raise ZeroDivisionError("division by zero")
        return examine(one, streams)

    examine = declared.examine
    monkeypatch.setattr(declared, "examine", fails)
    site.declare("good", SQL)
    site.declare("wrong", SQL)
    assert mistake(site).startswith("wrong.toml, line 1: the file cannot be examined (ZeroDivisionError")
    assert declared.catalog(site.settings).names == {"good"}

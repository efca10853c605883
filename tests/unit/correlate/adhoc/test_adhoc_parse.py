"""SQL to queries, and refusals that name the place."""

from __future__ import annotations

import pytest

from etl.correlate.adhoc.errors import QueryRefused
from etl.correlate.adhoc.query.model import Aggregate, ColumnOf, Query
from etl.correlate.adhoc.query.parse import parse_query
from tests.support.adhoc_oracle import STREAMS


def parsed(sql: str) -> Query:
    return parse_query("q", sql, 2, STREAMS)


def test_the_papers_second_query_is_understood() -> None:
    query = parsed(
        "select V.vid from V, W, C where V.vid = W.vid and W.usr = C.usr "
        "and V.geo = 'US' and W.duration < 10 and C.length > 5"
    )
    assert query.streams == ("V", "W", "C")
    assert [str(edge) for edge in query.edges] == ["C.usr = W.usr", "V.vid = W.vid"]
    assert set(query.selections) == {"V", "W", "C"}
    assert query.materialises


def test_aliases_and_case_do_not_matter() -> None:
    query = parsed("SELECT x.VID, count(*) AS n FROM v x JOIN w y ON x.vid = y.Vid GROUP BY x.vid")
    assert query.streams == ("V", "W")
    assert query.group_by == (ColumnOf("V", "vid"),)
    assert [each.name for each in query.outputs] == ["VID", "n"]


def test_two_equalities_between_two_streams_are_one_edge() -> None:
    (edge,) = parsed("select count(*) from V, W where W.geo = V.geo and V.vid = W.vid").edges
    assert edge.left.columns == edge.right.columns == ("geo", "vid")


def test_an_equality_that_follows_from_others_is_left_out() -> None:
    query = parsed("select count(*) from W, C, R where W.usr = C.usr and C.usr = R.usr and R.usr = W.usr")
    assert len(query.edges) == 2


def test_a_star_names_every_column_once() -> None:
    names = [each.name for each in parsed("select * from V, W where V.vid = W.vid").outputs]
    assert names == ["V_vid", "length", "V_geo", "price", "usr", "W_vid", "duration", "W_geo"]


def test_aggregates_keep_their_order_and_get_names() -> None:
    query = parsed(
        "select max(C.length), R.reaction, avg(C.emojis) a from C, R where C.usr = R.usr group by R.reaction"
    )
    assert [each.name for each in query.outputs] == ["max_length", "reaction", "a"]
    assert query.aggregates[0] == Aggregate("max", ColumnOf("C", "length"), "max_length")


REFUSALS = {
    "select V.vid from (": ("read as SQL", 1, 19),
    "select": ("FROM is missing", 1, 1),
    "select 'a": ("not closed", 1, 1),
    "select * from V where V.vid = 1": ("1 streams are named", 1, 15),
    "select * from V, X where V.vid = X.vid": ("stream 'X' is unknown; known are C, R, S, V, W", 1, 18),
    "select V.nope from V, W where V.vid = W.vid": ("column 'nope' is unknown", 1, 8),
    "select vid from V, W where V.vid = W.vid": ("column 'vid' is in V and W", 1, 8),
    "select V.vid\nfrom V, W,\n  C where V.vid = W.vid": ("cross product", 3, 3),
    "select V.vid from V, W where V.vid = W.vid and V.length > W.duration": ("a comparison of streams other", 1, 48),
    "select V.vid from V, W where V.vid = W.vid and (V.length > 1 or W.duration > 1)": ("OR over several", 1, 49),
    "select V.vid from V, W where V.vid = W.geo": ("can never be equal", 1, 30),
    "select V.vid from V, W where W.duration = V.price": ("cannot be a join key", 1, 30),
    "select V.vid from V, V where V.vid = V.vid": ("named twice", 1, 22),
    "select V.vid from V left join W on V.vid = W.vid": ("LEFT joins", 1, 31),
    "select V.vid from V join W using (vid)": ("USING joins", 1, 26),
    "select distinct V.vid from V, W where V.vid = W.vid": ("DISTINCT", 1, 1),
    "select V.vid from V, W where V.vid = W.vid order by V.vid": ("ORDER BY", 1, 53),
    "select V.vid from V, W where V.vid = W.vid limit 3": ("LIMIT", 1, 50),
    "select V.vid + 1 from V, W where V.vid = W.vid": ("SELECT takes columns", 1, 8),
    "select V.vid, count(*) from V, W where V.vid = W.vid": ("must be in GROUP BY", 1, 8),
    "select V.vid from V, W where V.vid = W.vid group by V.vid": ("GROUP BY without an aggregate", 1, 53),
    "select sum(V.geo) from V, W where V.vid = W.vid": ("sum of 'geo'", 1, 8),
    "select V.vid from V, W where V.vid = W.vid and V.length = 'x'": ("compare it with a number", 1, 59),
    "select V.vid from V, W where V.vid = W.vid and V.geo = 3": ("compare it with a string", 1, 56),
    "select V.vid from V, W where V.vid = W.vid and V.geo like 'x%'": ("cannot be shared; allowed are =", 1, 48),
    "select V.vid from V, W where V.vid = W.vid and abs(V.length) > 3": ("cannot be shared; allowed are =", 1, 48),
    "select V.vid from V, W where V.vid = W.vid and V.vid in (select usr from C)": ("a subquery", 1, 65),
    "select V.vid from V, W where V.vid = W.vid and 1 = 1": ("names no column", 1, 48),
    "select V.vid from V, W, C where V.vid = W.vid and W.usr = C.usr and C.length = V.length": (
        "joins in a circle", 1, 69),
    "select V.vid from V natural join W where V.vid = W.vid": ("NATURAL and ASOF joins", 1, 34),
    "select V.vid from V asof join W on V.vid = W.vid": ("NATURAL and ASOF joins", 1, 31),
    "select V.vid from V tablesample (10 percent), W where V.vid = W.vid": ("TABLESAMPLE cannot", 1, 19),
    "select V.vid from V version as of 1, W where V.vid = W.vid": ("a version of a stream", 1, 19),
    "select V.vid from V pivot (count(*) for geo in ('a')), W where V.vid = W.vid": ("PIVOT cannot", 1, 19),
    "select V.vid from V as x(a, b), W where x.vid = W.vid": ("other names for a stream's columns", 1, 24),
    "select * except (geo) from V, W where V.vid = W.vid": ("* EXCEPT cannot", 1, 8),
    "select a.V.vid from V, W where V.vid = W.vid": ("more than two parts", 1, 8),
    "select count(V.vid, W.vid) from V, W where V.vid = W.vid": ("count of several columns", 1, 8),
    "select V.vid from V, W where V.vid = W.vid for update": ("FOR UPDATE cannot", 1, 8),
    "select V.vid into x from V, W where V.vid = W.vid": ("INTO cannot", 1, 8),
    "select V.vid, count(*) from V, W where V.vid = W.vid group by V.vid with rollup": ("ROLLUP of GROUP", 1, 63),
    "select count(*) from V, W where V.vid = W.vid group by V.vid": ("in GROUP BY and not in SELECT", 1, 56),
    "select V.vid as `a b` from V, W where V.vid = W.vid": ("an output is named 'a b'", 1, 8),
    "select V.vid from V, W where V.vid = W.vid\nand V.geo = 'a\0b'": ("cannot be kept", 2, 15),
    "select V.vid from V, W where V.vid = W.vid and V.geo = '\ud800'": ("cannot be kept", 1, 57),
    "delete from V": ("one SELECT", 1, 13),
    "select 1; select 2": ("one SELECT", 1, 18),
}  # fmt: skip


@pytest.mark.parametrize("sql", REFUSALS)
def test_what_cannot_be_run_is_refused_at_its_place(sql: str) -> None:
    words, line, column = REFUSALS[sql]
    with pytest.raises(QueryRefused) as refusal:
        parsed(sql)
    assert words in str(refusal.value)
    assert (refusal.value.line, refusal.value.column) == (line, column), str(refusal.value)


_NESTED = [
    f"{'(' * 3000}V.length > 1{')' * 3000}",
    f"{'not ' * 3000}V.length > 1",
    " and ".join(f"V.length <> {n}" for n in range(900)),
    " or ".join(f"V.length = {n}" for n in range(900)),
]


@pytest.mark.parametrize("condition", _NESTED, ids=["parentheses", "not", "and", "or"])
def test_conditions_without_end_are_refused_in_a_sentence(condition: str) -> None:
    with pytest.raises(QueryRefused, match="nested more than 100 deep"):
        parsed(f"select V.vid from V, W where V.vid = W.vid and ({condition})")


def test_a_text_has_an_end() -> None:
    with pytest.raises(QueryRefused, match="20,000 are allowed"):
        parsed(f"select V.vid from V, W where V.vid = W.vid and V.geo = '{'x' * 20_000}'")


def test_thousands_of_values_in_a_list_are_one_set() -> None:
    query = parsed(f"select V.vid from V, W where V.vid = W.vid and V.length in ({', '.join(map(str, range(3000)))})")
    ((allowed,),) = (each.values() for each in query.selections["V"])
    assert [2999 in allowed, 3000 in allowed] == [True, False]


@pytest.mark.parametrize(
    ("outputs", "names"),
    [
        ("V.vid as A, W.vid as a", ["V_A", "W_a"]),
        ("avg(V.length) as a, sum(V.length) as a__sum", ["a", "a__sum_2"]),
        ("sum(V.length) as a__sum, avg(V.length) as a", ["a__sum", "a_2"]),
        ("count(*), count(*)", ["count", "count_2"]),
    ],
)
def test_no_two_columns_of_a_table_have_one_name(outputs: str, names: list[str]) -> None:
    assert [each.name for each in parsed(f"select {outputs} from V, W where V.vid = W.vid").outputs] == names


def test_too_many_alternatives_are_refused() -> None:
    ors = " and ".join(
        f"(V.length > {n} or V.vid < {n} and V.geo > '{n}' or V.price > {n} and V.vid > {n})" for n in range(4)
    )
    with pytest.raises(QueryRefused, match="alternatives, 32 are allowed"):
        parsed(f"select count(*) from V, W where V.vid = W.vid and {ors}")

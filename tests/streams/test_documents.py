"""Documents end to end: the table of results is what the nested loop over all documents says, each pair once."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from etl.cli.correlations.documents_text import document_plan_lines
from etl.pipeline.upkeep.maintenance import Keep
from etl.report.correlations.folder import write
from etl.streams import microbatch
from etl.streams.state.change import CorrelationChanged
from etl.streams.tasks.in_process import InProcess
from tests.support.document_site import STREAM, DocumentSite, Pair, seconds
from tests.support.stream_site import Ended, quiet

DEEP = b'{"a":' * 40 + b"1" + b"}" * 40
DIRT = {
    b"{": "not_json",
    b"[1]": "not_an_object",
    b'{"a":1,"a":2,"time":1}': "duplicate_key",
    b'{"time":NaN}': "not_a_number",
    b"\xff": "not_utf8",
    b'{"User":"u1"}': "event_time_missing",
    b'{"time":null}': "event_time_missing",
    b'{"time":"soon"}': "event_time_invalid",
    b'{"time":1e308}': "event_time_invalid",
    b'{"time":-1e306}': "event_time_invalid",
    b'{"time":1e300}': "event_time_invalid",
    b'{"time":253402300800000}': "event_time_invalid",
    b'{"time":1,"a":"\\u0000"}': "nul_character",
    b'{"time":1,"b":%s}' % DEEP: "too_deep",
    b'{"time":1,"a":"%s"}' % (b"x" * 5000): "too_large",
    b'{"time":1,"a":"%s"}' % (b"x" * 70_000): "line_too_long",
    b'{"time":1,"a":[%s]}' % b",".join(b"1" for _ in range(60)): "too_many_pairs",
    b'{"time":1,"a":18446744073709551616}': "number_out_of_range",
    b'{"time":1e309}': "number_out_of_range",
}
"""Lines that are no documents, with the reasons for refusing them."""


@pytest.fixture
def site(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> DocumentSite:
    monkeypatch.setattr(microbatch, "_TASK_BYTES", 400)
    made = DocumentSite.under(tmp_path, database, InProcess(slots=3))
    (made.steps.settings.streams / "logs.toml").write_text(STREAM + 'max_bytes = "4KiB"\nmax_pairs = 50\n')
    return made


def some(draw: np.random.Generator, number: int, around: float) -> dict[str, Any]:
    """Few values, so that documents share and conflict; some far behind, some nested."""
    document: dict[str, Any] = {"n": {"id": number}}
    for name, values in (("User", 4), ("Host", 3), ("Kind", 2)):
        if draw.random() < 0.7:
            document[name] = int(draw.integers(0, values))
    if draw.random() < 0.3:
        document["tags"] = ["x", "y"][: int(draw.integers(1, 3))]
    late = float(draw.choice([0, 0, 0, 2, 30]))
    return {**document, "time": seconds(around - late + float(draw.random()) * 4)}


def history(seed: int, batches: int, most: int = 40) -> list[list[dict[str, Any]]]:
    draw, number, made = np.random.default_rng(seed), 0, []
    for batch in range(batches):
        documents = []
        for _ in range(int(draw.integers(most // 2, most))):
            number += 1
            documents.append(some(draw, number, 6.0 * batch))
        made.append(documents)
    return made


def land(site: DocumentSite, batch: int, documents: list[dict[str, Any]], *, dirt: bool = True) -> None:
    half = len(documents) // 2
    site.land(f"{batch}a", [*documents[:half], *(DIRT if dirt else ())])
    site.land(f"{batch}b", documents[half:])


WINDOWS = {
    "tumbling": {"window": "10 seconds"},
    "sliding": {"window": "12 seconds", "slide": "4 seconds"},
    "counted": {"window": 25},
    "counted_sliding": {"window": 30, "slide": 10},
}


@pytest.mark.parametrize("seed", [1, 2])
def test_every_pair_of_a_window_is_in_the_table_once(site: DocumentSite, seed: int) -> None:
    for name, window in WINDOWS.items():
        late = {} if "counted" in name else {"lateness": "3 seconds"}
        site.declare(name, **late, documents={"stream": "logs", "partitions": 3, "theta": 0.0, **window})
    assert site.steps.check() == ()
    past = history(seed, 6)
    for number, documents in enumerate(past):
        land(site, number, documents)
        site.run()
    for name, window in WINDOWS.items():
        assert site.pairs(name) == site.truth(past, window, lateness_s=3), name
        assert site.pairs(name), name
    assert site.table("tumbling", "late").num_rows > 0
    reasons = Counter(reason for row in site.quarantine("logs").to_pylist() for reason in row["reasons"])
    assert reasons == Counter(list(DIRT.values()) * len(past))


def test_partitions_are_made_anew_inside_open_windows_and_no_pair_is_lost(site: DocumentSite) -> None:
    site.declare("links", documents={"stream": "logs", "window": "5 seconds", "partitions": 4, "theta": 0.0})
    site.declare("wide", documents={"stream": "logs", "window": "60 seconds", "slide": "5 seconds", "theta": 0.0})
    past = history(5, 9)
    for number, documents in enumerate(past):
        land(site, number, documents, dirt=False)
        site.run()
    assert site.steps.explain("links")["repartitions"] > 0
    assert site.pairs("links") == site.truth(past, {"window": "5 seconds"})
    assert site.pairs("wide") == site.truth(past, {"window": "60 seconds", "slide": "5 seconds"})


def test_a_new_value_goes_everywhere_until_it_was_sighted_delta_times(site: DocumentSite) -> None:
    options = {"stream": "logs", "window": "1 minute", "partitions": 4, "delta": 3, "theta": 9.0}
    site.declare("links", documents=options)
    past = [[{"time": seconds(0), "User": i % 8, "n": {"id": i}} for i in range(40)]]
    past += [[{"time": seconds(1), "User": "new", "n": {"id": 40 + i}}] for i in range(5)]
    broadcast, updates = [], []
    for number, documents in enumerate(past):
        site.land(str(number), documents)
        told = site.run()["correlations"]["links"]["documents"]
        broadcast.append(told["windows"][0]["broadcast"])
        updates.append(told["updates"])
    assert (broadcast, updates) == ([0, 1, 2, 3, 3, 3], [0, 0, 0, 1, 0, 0])
    assert site.pairs("links") == site.truth(past, {"window": "1 minute"})


def test_more_partitions_may_be_declared_while_it_runs(site: DocumentSite) -> None:
    past = history(7, 4)
    for number, documents in enumerate(past):
        site.declare("links", documents={"stream": "logs", "window": "100 seconds", "partitions": 2 + 40 * number})
        land(site, number, documents, dirt=False)
        site.run()
    assert site.steps.explain("links")["joiners"] == 122
    assert site.pairs("links") == site.truth(past, {"window": "100 seconds"})


def test_a_change_that_state_cannot_follow_is_refused(site: DocumentSite) -> None:
    site.declare("links", documents={"stream": "logs", "window": "1 minute"})
    land(site, 0, history(1, 1)[0])
    site.run()
    site.declare("links", documents={"stream": "logs", "window": "2 minutes"})
    land(site, 1, history(2, 1)[0])
    with pytest.raises(CorrelationChanged, match="cannot change window"):
        site.run()
    site.declare("links", sql="select a.event_time as t from logs a join logs b on a.document = b.document")
    with pytest.raises(CorrelationChanged, match="cannot change its kind from documents to SQL"):
        site.run()


def test_a_stream_that_has_brought_nothing_yet_gets_its_partitions_with_the_first_documents(site: DocumentSite) -> None:
    text = STREAM.replace("landing/logs", "landing/other")
    (site.steps.settings.streams / "other.toml").write_text(text)
    site.declare("links", documents={"stream": "logs", "window": "1 minute"})
    site.under_it.land("other", "a", [{"time": seconds(0), "a": 1}])
    site.run()
    (documents,) = history(3, 1, 60)
    land(site, 0, documents)
    site.run()
    plan = site.steps.explain("links")
    assert plan["attributes"]
    assert [one["version"] for one in plan["versions"]] == [0]
    assert site.pairs("links") == site.truth([documents], {"window": "1 minute"})


def test_explain_and_the_page_of_a_batch_show_windows_partitions_and_load(site: DocumentSite, tmp_path: Path) -> None:
    site.declare("links", documents={"stream": "logs", "window": "10 seconds", "max_pairs": 20})
    before = "\n".join(document_plan_lines(site.steps.explain("links")))
    assert "partitions are made when the first batch has come" in before
    for number, documents in enumerate(history(4, 2)):
        land(site, number, documents)
        result = site.run()
    text = "\n".join(document_plan_lines(site.steps.explain("links")))
    for shown in ("open windows", "replication", "Gini", "order of attributes in the tree", "User", "sent to joiners"):
        assert shown in text
    page = write(result, tmp_path / "reports", 3).html.read_text()
    for shown in ("Window from", "Maximal load", "pairs cut", "partitions made anew"):
        assert shown in page
    assert site.steps.status()["correlations"]["links"]["units"] == 8


def test_segments_and_files_of_closed_windows_are_removed_by_maintenance(site: DocumentSite) -> None:
    site.declare("links", documents={"stream": "logs", "window": "10 seconds"})
    for number in range(3):
        site.land(str(number), [{"time": seconds(100 * number + i), "User": 1, "n": {"id": i}} for i in range(5)])
        site.run()
    told = site.steps.maintain(Keep(), quiet)
    assert told["segments"] == 2, "the last window is open"
    site.land("again", [{"time": seconds(205), "User": 1, "n": {"id": 9}}])
    assert site.run()["correlations"]["links"]["pairs"] == 5


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"stream": "nobody"}, "line 2: stream 'nobody' is not declared; streams of documents are logs"),
        ({"stream": "fields"}, "stream 'fields' has declared fields; write SQL over it"),
        ({"window": "soon"}, "line 3: window is 'soon', but must be a length of time such as '5 minutes', or a whole"),
        ({"window": 10, "slide": 3}, "slide is 3, but must be a whole part of the window 10"),
        ({"window": 10, "slide": "1s"}, "slide must be said as window is"),
        ({"budget": "much"}, "budget is 'much', but must be a size such as '64MiB'"),
        ({"keep": ["merged", "merged"]}, "must name every part once: merged, left, right"),
        ({"partition": 3}, "'partition' is not a key of [documents]; did you mean 'partitions'?"),
        ({"partitions": 0}, "documents.partitions is 0, but must be a larger number"),
    ],
)
def test_a_mistake_in_a_correlation_of_documents_is_one_sentence_with_its_line(
    site: DocumentSite, options: dict[str, Any], sentence: str
) -> None:
    site.under_it.declare_stream("fields")
    site.declare("wrong", documents={"stream": "logs", "window": "1 minute", **options})
    (error,) = site.steps.check()
    assert str(error).startswith("wrong.toml, line ")
    assert sentence in str(error)


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (('event_time = "time"\n', ""), "[documents] has no 'event_time'; it needs one"),
        (('unit = "ms"', 'unit = "hours"'), "documents.unit is 'hours', but must be one of 's', 'ms', 'us'"),
        (('unit = "ms"', 'max_bytes = "1GiB"'), "max_bytes is '1GiB', but must be at most '64KiB'"),
        (('unit = "ms"', "max_depth = 1000"), "documents.max_depth is 1000"),
        (('"time"', "'a[0]'"), "line 5: event_time is 'a[0]', but must be a path of names such as 'meta.at'"),
        (('"time"', "'a\\'"), "but must be a path of names such as 'meta.at'"),
        (("[documents]", '[stream.fields]\na = "int"\n[documents]'), "'fields' is not a key of [stream]"),
    ],
)
def test_a_mistake_in_a_stream_of_documents_is_one_sentence_with_its_line(
    site: DocumentSite, edit: tuple[str, str], sentence: str
) -> None:
    assert edit[0] in STREAM
    (site.steps.settings.streams / "logs.toml").write_text(STREAM.replace(*edit))
    (error,) = site.steps.check()
    assert str(error).startswith("logs.toml, line ")
    assert sentence in str(error)


def expected(batches: int) -> Counter[Pair]:
    found: Counter[Pair] = Counter()
    for batch in range(batches):
        found.update((10 * batch + i, 10 * batch + j) for i in range(6) for j in range(i) if i % 3 == j % 3)
    return Counter({(min(pair), max(pair)): n for pair, n in found.items()})


def land_one(site: DocumentSite, batch: int) -> None:
    on_time = [{"time": seconds(60 * batch + i), "User": f"{batch}-{i % 3}", "n": {"id": 10 * batch + i}}
               for i in range(6)]  # fmt: skip
    late = [{"time": seconds(-1000), "User": "0-1", "n": {"id": 999}}] if batch else []
    site.land(str(batch), [*on_time[:3], b"{", *late, *on_time[3:]])


CHECKPOINTS = [
    "after input is fixed",
    "before the decision",
    "after the decision",
    "before results of correlations/links is published",
    "after results of correlations/links is published",
    "before late of correlations/links is published",
    "after the aggregates are loaded",
]


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_a_run_that_ends_at_a_checkpoint_is_taken_up_and_every_pair_is_there_once(
    site: DocumentSite, checkpoint: str
) -> None:
    site.declare("links", documents={"stream": "logs", "window": "1 minute", "partitions": 3})
    land_one(site, 0)
    site.run()
    land_one(site, 1)
    with suppress(Ended):
        site.ending(checkpoint).run()
    site.restarted()
    land_one(site, 2)
    while site.run()["batch"] is not None:
        pass
    assert site.pairs("links") == expected(3)
    assert site.table("links", "late").num_rows == 2
    assert site.quarantine("logs").num_rows == 3

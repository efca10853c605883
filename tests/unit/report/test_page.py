"""What the page of a run report says, and that it says it safely."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from etl.report import drawing, listing, page
from etl.report.model import RunReport, Sample, Totals
from tests.support import reports as samples


class Reader(HTMLParser):
    """What is left of a page for somebody who reads it: its elements, its links and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(html)
        self.text = re.sub(r"\s+", " ", self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_says_what_happened_and_how_much() -> None:
    text = Reader(page.render(samples.loaded())).text
    for said in ("Batch 000061", "Loaded", "3,715", "3,518", "92.9 %", "34.6 s", "p95 61.9 s", "11.4 s"):
        assert said in text


def test_hostile_text_is_shown_and_not_obeyed() -> None:
    hostile = samples.HOSTILE
    report = samples.loaded(batches=3).model_copy(
        update={
            "message": hostile,
            "run_id": hostile,
            "reasons": {hostile: 3},
            "seconds": {hostile: 1.0},
            "quarantine_samples": (Sample(reason=hostile, raw=hostile, source_file=hostile),),
            "joins": (samples.loaded().joins[0].model_copy(update={"master": hostile, "tactic": hostile}),),
        }
    )
    read = Reader(page.render(report))
    assert not {"script", "img", "iframe", "object", "embed"} & set(read.tags)
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert hostile in read.text


def test_the_page_refers_to_nothing_outside_its_own_folders() -> None:
    for html in (
        page.render(samples.loaded()),
        listing.render((samples.loaded().summary(),), "../data_docs/index.html"),
    ):
        read = Reader(html)
        links = [value for name, value in read.attributes if name in {"href", "src", "xlink:href", "action", "data"}]
        assert links
        assert all(link == "data:," or not re.match(r"[a-z]+:|//|/", link) for link in links)
        assert "url(" not in html
        assert "@import" not in html


def test_the_page_links_to_data_docs_the_json_and_the_list() -> None:
    links = {value for name, value in Reader(page.render(samples.loaded())).attributes if name == "href"}
    assert {"../../data_docs/index.html", "report.json", "../index.html"} <= links


def test_a_balanced_report_shows_its_sum() -> None:
    text = Reader(page.render(samples.loaded())).text
    assert "Every event is in exactly one place" in text
    assert "200,000 landed since the beginning = 193,214 fact + 4,102 quarantine + 123 backlog + 2,561 dup" in text


@pytest.mark.parametrize(
    ("events", "said"),
    [(12, "12 events are nowhere"), (1, "1 event is nowhere"), (-3, "3 events are in more than one place")],
)
def test_an_unbalanced_report_says_so_instead(events: int, said: str) -> None:
    text = Reader(page.render(samples.unbalanced(events))).text
    assert said in text
    assert "not balanced" in text
    assert "≠" in text
    assert "Every event is in exactly one place" not in text


def test_an_empty_landing_is_told_plainly() -> None:
    text = Reader(page.render(samples.empty())).text
    for said in ("No new events", "Nothing was quarantined", "No event was joined", "The gate did not run"):
        assert said in text


def test_the_first_batch_has_no_trend_yet_and_says_when_it_will() -> None:
    html = page.render(samples.loaded(batches=0))
    assert html.count("The trend starts with the second batch.") == 4
    assert html.count('<svg xmlns="') == 2, "time per step and reasons do not need a history"


def test_a_report_with_nothing_in_it_at_all_still_has_a_page() -> None:
    now = samples.START
    bare = RunReport(batch="1", run_id="", started_at=now, finished_at=now, outcome="failed", message="")
    text = Reader(page.render(bare)).text
    assert "Failed" in text
    assert "Nothing has landed yet." in text


def test_a_held_batch_names_the_failed_expectations_first() -> None:
    text = Reader(page.render(samples.held())).text
    assert "6 expectations on the accepted events, 2 failed." in text
    assert text.index("expect column values to be between") < text.index("expect column values to not be null")


def test_every_chart_is_drawn_once_with_colours_that_follow_the_theme() -> None:
    html = page.render(samples.loaded())
    drawings = re.findall(r'<svg xmlns=".*?</svg>', html, re.DOTALL)
    assert len(drawings) == 6
    for svg in drawings:
        colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', svg))
        assert all(colour.startswith("var(--") or colour in {"none", "transparent"} for colour in colours), colours
        assert "clip-path" not in svg, "ids would collide between drawings on one page"


def test_many_reasons_are_ranked_and_the_rest_is_summed() -> None:
    html = page.render(samples.loaded())
    assert "malformed_json 41, unit_price_out_of_range 33" in html
    assert "2 other reasons 3" in html


def test_batches_without_a_hit_ratio_leave_a_gap_and_not_an_error() -> None:
    points = tuple(
        point.model_copy(update={"hit_ratio": None, "freshness_p50_s": None}) for point in samples.history(5)
    )
    report = samples.loaded().model_copy(update={"history": points, "joins": (), "freshness_s": None})
    assert "Nothing was measured in these batches." in page.render(report)


def test_large_totals_are_written_in_full() -> None:
    totals = Totals(events_landed=12_345_678_901, fact=12_345_678_901)
    assert "12,345,678,901 fact" in page.render(samples.loaded().model_copy(update={"totals": totals}))


def test_only_so_many_samples_are_shown() -> None:
    report = samples.loaded(batches=0).model_copy(update={"quarantine_samples": samples.SAMPLES * 20})
    assert page.render(report).count('class="raw"') == page.SAMPLES_SHOWN


def test_a_drawing_never_fetches_data() -> None:
    with pytest.raises(ValueError):
        drawing.draw({"data": {"url": "https://example.org/x.csv"}, "mark": "bar", "encoding": {}})


def _themes() -> list[dict[str, str]]:
    css = page.render(samples.empty(0))
    light, dark = (
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]
    )
    return [light, dark]


def _contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_charts_have_enough_contrast_in_light_and_in_dark() -> None:
    for theme in _themes():
        for surface in ("page", "card"):
            for text in ("ink", "muted", "link"):
                assert _contrast(theme[text], theme[surface]) >= 4.5, (text, surface)
        for tone in ("good", "warn", "bad", "calm"):
            assert _contrast(theme[tone], theme[f"{tone}-bg"]) >= 4.5, tone
        for mark in ("accepted", "quarantined", "backlog", "duplicates", "missing"):
            assert _contrast(theme[mark], theme["card"]) >= 3, mark

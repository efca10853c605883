"""How figures are written."""

from __future__ import annotations

import pytest

from etl.report import figures


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.0004, "< 1 ms"),
        (0.24, "240 ms"),
        (0.9999, "1.0 s"),
        (8.44, "8.4 s"),
        (99.97, "1 min 40 s"),
        (185, "3 min 05 s"),
        (3599.6, "1 h 00 min"),
        (7800, "2 h 10 min"),
        (273_600, "3 d 4 h"),
        (-2.5, "−2.5 s"),
    ],
)
def test_a_duration_has_at_most_two_parts(seconds: float | None, written: str) -> None:
    assert figures.duration(seconds).replace("\u00a0", " ") == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(30, "30 s"), (900, "15 min"), (5400, "1 h 30 min"), (7 * 86_400, "7 d"), (0.5, "500 ms"), (1.5, "1.5 s")],
)
def test_a_declared_length_of_time_is_exact_and_without_what_is_zero(seconds: float, written: str) -> None:
    assert figures.span(seconds).replace("\u00a0", " ") == written


@pytest.mark.parametrize(
    ("ratio", "written"),
    [(None, "–"), (0, "0 %"), (1, "100 %"), (0.931, "93.1 %"), (0.000001, "< 0.1 %"), (0.999999, "99.9 %")],
)
def test_a_percentage_is_0_or_100_only_when_it_truly_is(ratio: float | None, written: str) -> None:
    assert figures.percent(ratio).replace("\u00a0", " ") == written


def test_characters_that_hide_or_reorder_text_are_made_visible() -> None:
    assert figures.visible("a\x00\x1b[31m\u202eb\u2028") == "a‹U+0000›‹U+001B›[31m‹U+202E›b‹U+2028›"
    assert figures.visible("naïve 北京 🙂") == "naïve 北京 🙂"

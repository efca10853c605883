"""The run report in a real browser, opened from the disk: quiet, legible and asking for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from etl.report import folder
from tests.support import reports as samples
from tests.support.browser import Visit, chromium

pytestmark = pytest.mark.browser

WIDTHS = (390, 820, 1280)
PAGES = ("000061", "held", "empty", "unbalanced", "extreme", "000001", "")

OVERLAPS = """() => {
  const found = [...document.querySelectorAll('.tiles dd, .places li, h1, h2, .lead')]
    .filter(box => box.scrollWidth > box.clientWidth + 1)
    .map(box => `${box.textContent} is wider than its box`);
  for (const svg of document.querySelectorAll('.drawing svg')) {
    const frame = svg.getBoundingClientRect();
    const shown = text => text.textContent.trim() && text.getAttribute('opacity') !== '0';
    const labels = [...svg.querySelectorAll('text')].filter(shown);
    const boxes = labels.map(t => [t.textContent, t.getBoundingClientRect()]);
    boxes.forEach(([text, box], i) => {
      const across = box.left < frame.left - 1 || box.right > frame.right + 1;
      if (across || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        found.push(`${text} leaves its drawing`);
      for (const [other, its] of boxes.slice(i + 1)) {
        const wide = Math.min(box.right, its.right) - Math.max(box.left, its.left);
        const high = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
        if (wide > 1 && high > 3) found.push(`${text} overlaps ${other}`);
      }
    });
  }
  return found;
}"""


def place(name: str) -> str:
    """The page of a batch, or the list of all, below the folder of reports."""
    return f"/{name}/index.html" if name else "/index.html"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of reports as a user has it: a few batches, and one of every unusual kind."""
    root = tmp_path_factory.mktemp("var") / "reports"
    for report in samples.series(4):
        folder.write(report, root, keep=200)
    for name, report in (
        ("held", samples.held()),
        ("empty", samples.empty()),
        ("unbalanced", samples.unbalanced(12)),
        ("extreme", samples.extreme()),
    ):
        folder.write(report.model_copy(update={"batch": name}), root, keep=200)
    folder.write(samples.loaded(), root, keep=200)
    return root


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def visit(browser: Browser, reports: Path) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield Visit(context.new_page(), reports.as_uri())
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_from_the_disk_without_a_word_and_without_a_request(
    visit: Visit, reports: Path, name: str
) -> None:
    path = reports / name / "index.html"
    page = visit.open(place(name))
    assert visit.said == []
    assert [url for url in visit.asked if not url.startswith("data:")] == [path.as_uri()]
    assert page.locator("h1").count() == 1


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone_a_tablet_and_a_desk(visit: Visit, reports: Path, name: str) -> None:
    page = visit.open(place(name))
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == width, f"at {width} pixels"
        assert page.evaluate(OVERLAPS) == [], f"at {width} pixels"


def test_the_page_of_a_run_has_its_sections_in_order(visit: Visit, reports: Path) -> None:
    page = visit.open("/000061/index.html")
    assert page.locator("h1, h2").all_inner_texts() == [
        "Batch 000061",
        "Every event is in exactly one place",
        "Trends and this batch",
        "Joins with master data",
        "Quality gate",
        "Quarantined records",
    ]
    assert page.get_by_role("img").count() == 6
    assert all(page.get_by_role("img").nth(n).get_attribute("aria-label") for n in range(6))


def test_a_hostile_record_is_text_on_the_page_and_nothing_else(visit: Visit, reports: Path) -> None:
    page = visit.open("/000061/index.html")
    assert page.get_by_text(samples.HOSTILE).is_visible()
    assert page.locator("script, img, iframe").count() == 0
    assert visit.said == []


def test_the_places_of_the_orders_fill_the_bar(visit: Visit, reports: Path) -> None:
    page = visit.open("/000061/index.html")
    widths = page.eval_on_selector_all(".stack span", "spans => spans.map(span => span.getBoundingClientRect().width)")
    assert len(widths) == 4
    assert min(widths) >= 4, "a place with few orders must still be seen"
    assert widths[0] > 0.9 * sum(widths)


def test_dark_and_light_differ_and_paper_is_always_light(visit: Visit, reports: Path) -> None:
    page = visit.open("/000061/index.html")
    paint = """() => [
      getComputedStyle(document.body).backgroundColor,
      getComputedStyle(document.querySelector('.drawing text')).fill,
    ]"""
    looks = {}
    for media, scheme in (("screen", "light"), ("screen", "dark"), ("print", "dark")):
        page.emulate_media(media=media, color_scheme=scheme)
        looks[media, scheme] = page.evaluate(paint)
    light, dark, paper = looks.values()
    assert light[0] != dark[0]
    assert light[1] != dark[1], "the drawings follow the theme"
    assert paper == ["rgb(255, 255, 255)", light[1]]


def test_the_list_and_the_reports_link_to_each_other(visit: Visit, reports: Path) -> None:
    page = visit.open("/index.html")
    assert page.locator("tbody tr").count() == 9
    page.get_by_role("link", name="held").click()
    assert page.locator("h1").inner_text() == "Batch held"
    page.get_by_role("link", name="All reports").click()
    assert page.locator("h1").inner_text() == "Run reports"
    page.get_by_role("link", name="Latest JSON").click()
    assert page.url == (reports / "latest.json").as_uri()


def test_the_numbers_behind_the_trends_can_be_unfolded_with_the_keyboard(visit: Visit, reports: Path) -> None:
    page = visit.open("/000061/index.html")
    rows = page.locator("details tbody tr")
    assert not rows.first.is_visible()
    page.locator("summary").focus()
    page.keyboard.press("Enter")
    assert rows.first.is_visible()
    assert rows.count() == 60

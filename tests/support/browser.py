"""The system's Chromium for the tests that look at pages, a visit that notes what a page says and asks for, and axe."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from etl.settings import PROJECT

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
_AXE = (PROJECT / "tests" / "browser" / "axe" / "axe.min.js").read_text()
_VIOLATIONS = """axe.run(document).then(found => found.violations
  .filter(one => ['serious', 'critical'].includes(one.impact))
  .flatMap(one => one.nodes.map(node => `${one.id}: ${node.html.slice(0, 300)}`)))"""
expect.set_options(timeout=60_000)  # far beyond what it takes; a busy machine is no failure


@dataclass
class Visit:
    """One page, opened, with everything the browser said and asked for meanwhile."""

    page: Page
    home: str
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def open(self, place: str) -> Page:
        """Open a page below the home."""
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(self.home + place, wait_until="load")
        return self.page


def chromium_path() -> str:
    """Where the system's Chromium is. `make test` installs it; who may not leaves these tests out by their mark."""
    path = shutil.which("chromium")
    if path is None:
        pytest.fail("chromium is not installed; run `bin/setup --with-browser`, or leave out tests marked `browser`")
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        yield browser
        browser.close()


def barriers(page: Page) -> list[str]:
    """What axe finds serious on a page, as light and as dark."""
    found = []
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        page.evaluate(_AXE)
        found += [f"{scheme}: {one}" for one in page.evaluate(_VIOLATIONS)]
    return found

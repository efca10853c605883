"""A pytest plugin for `make faults`: one line per case, the reasons of failures, and last `N passed, M failed`."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest


class OneLine:
    """Takes the place of pytest's own terminal reporter."""

    def __init__(self) -> None:
        self.passed, self.failed = 0, 0
        self._seconds: dict[str, float] = {}
        self._began = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed += 1
            print(f"FAILED  {_sentence(report.nodeid)}\n{report.longreprtext}", flush=True)
        elif report.when == "call" and report.passed:
            self.passed += 1
            measured = "".join(f"; {name}: {value}" for name, value in report.user_properties)
            print(f"passed  {_sentence(report.nodeid)}  ({self._seconds[report.nodeid]:.1f} s{measured})", flush=True)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed += 1
            print(f"FAILED  {report.nodeid}\n{report.longreprtext}", flush=True)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        print(f"{(time.monotonic() - self._began) / 60:.1f} minutes", flush=True)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        print(f"{self.passed} passed, {self.failed} failed", flush=True)


def _sentence(node: str) -> str:
    """A case in words: `test_a_driver_killed[before the note]` is "a driver killed: before the note"."""
    file, _, name = node.rpartition("::")
    match = re.fullmatch(r"test_(\w+?)(?:\[(.*)\])?", name)
    words, case = match.groups() if match else (name, None)
    group = file.rpartition("/")[2].removeprefix("test_").removesuffix(".py").replace("_", " ")
    return f"{group}: {words.replace('_', ' ')}" + (f": {case}" if case else "")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return  # a worker of pytest-xdist: its parent prints
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        config.pluginmanager.unregister(reporter)
    config.pluginmanager.register(OneLine(), "one-line")

"""The documents say what is so: names of files, targets, commands and settings in them exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from etl import settings_reference
from etl.cli import app
from etl.contract.load import load
from etl.settings import PREFIX, PROJECT, Settings

DOCS = sorted(
    [PROJECT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    + list((PROJECT / "docs").rglob("*.md"))
)
ADRS = sorted((PROJECT / "docs" / "adr").glob("*.md"))

FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
TARGET = re.compile(r"(?:^|[\s;])make ([a-z][a-z-]*)", re.MULTILINE)
CALL = re.compile(r"(?:^|\s)(?:\.venv/bin/)?frontstage ([a-z-][^\n#,;|]*)", re.MULTILINE)
SETTING = re.compile(rf"\b{PREFIX}[A-Z][A-Z_]*")
SOURCE = re.compile(r"(?<![\w/.-])(?:etl|warehouse|requirements|dags|sql|bin|docker|tests)/[\w./-]*\.\w+")


def code(text: str) -> list[str]:
    """What stands in code blocks, without their comments, and in code spans."""
    blocks = [re.sub(r"\s#.*$", "", block, flags=re.MULTILINE) for block in FENCE.findall(text)]
    return blocks + SPAN.findall(FENCE.sub("", text))


def in_code(pattern: re.Pattern[str], text: str) -> list[str]:
    return [found for piece in code(text) for found in pattern.findall(piece)]


def anchors(text: str) -> set[str]:
    """The anchors a page offers: one per heading."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path, text: str) -> Iterator[str]:
    for link in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = page.parent / place if place else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            yield link


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), flags=re.MULTILINE))


@cache
def commands() -> Any:
    """Typer's commands, which look like click's, whichever click it uses; building them takes a moment."""
    return typer.main.get_command(app)


def refusal(call: str) -> str | None:
    """Why the command would refuse this call; None when it knows every word and option of it."""
    command = commands()
    for word in shlex.split(call):
        options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        if word.startswith("-"):
            if word not in options | {"--help"}:
                return f"{word} is not an option of {command.name}"
        elif hasattr(command, "commands"):
            if word not in command.commands:
                return f"{word} is not a command of {command.name}"
            command = command.commands[word]
    return None


def by_name(path: Path) -> str:
    return str(path.relative_to(PROJECT))


def test_the_configuration_page_is_what_the_settings_say() -> None:
    assert settings_reference.main(["--check"]) == 0, "run `make docs`"


def test_a_stale_configuration_page_is_noticed_and_written_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "configuration.md"
    assert settings_reference.main(["--check"], page) == 1
    assert settings_reference.main([], page) == 0
    assert settings_reference.main(["--check"], page) == 0
    page.write_text(page.read_text().replace("8080", "8081"))
    assert settings_reference.main(["--check"], page) == 1
    assert "make docs" in capsys.readouterr().err


def test_the_configuration_page_has_every_setting_once_and_no_path_of_this_machine() -> None:
    page = settings_reference.page()
    rows = re.findall(rf"^\| `{PREFIX}([A-Z_]+)` \|", page, flags=re.MULTILINE)
    assert sorted(name.lower() for name in rows) == sorted(Settings.model_fields)
    assert str(PROJECT) not in page


@pytest.mark.parametrize("page", DOCS, ids=by_name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert list(broken_links(page, page.read_text())) == []


@pytest.mark.parametrize("page", DOCS, ids=by_name)
def test_every_make_target_a_page_names_exists(page: Path) -> None:
    assert set(in_code(TARGET, page.read_text())) - targets() == set()


@pytest.mark.parametrize("page", DOCS, ids=by_name)
def test_every_command_a_page_names_exists_with_its_options(page: Path) -> None:
    assert [why for call in in_code(CALL, page.read_text()) if (why := refusal(call))] == []


@pytest.mark.parametrize("page", DOCS, ids=by_name)
def test_every_setting_a_page_names_exists(page: Path) -> None:
    named = {variable.removeprefix(PREFIX).lower() for variable in SETTING.findall(page.read_text())}
    assert named - set(Settings.model_fields) == set()


@pytest.mark.parametrize("page", DOCS, ids=by_name)
def test_every_source_file_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    made = {f"warehouse/pipelines/{name}.toml" for name in re.findall(r"pipeline new (\w+)", text)}
    assert [name for name in in_code(SOURCE, text) if name not in made and not (PROJECT / name).exists()] == []


def test_the_readme_names_what_a_newcomer_needs() -> None:
    readme = (PROJECT / "README.md").read_text()
    assert {"demo", "up", "down", "test"} <= set(in_code(TARGET, readme))
    pictures = {
        f"docs/images/{name}" for name in ("flow.svg", "airflow-run.png", "frontstage-page.png", "run-report.png")
    }
    assert pictures <= set(LINK.findall(readme))


def test_the_readmes_figure_of_speed_is_the_one_that_was_measured() -> None:
    page = (PROJECT / "docs" / "performance.md").read_text()
    (measured,) = re.findall(r"^\| 50,000 orders every 30 s \| \d+ \| [\d.]+ \| ([\d.]+) \|$", page, re.MULTILINE)
    readme = " ".join((PROJECT / "README.md").read_text().split())
    assert f"while 50,000 orders land every 30 seconds, 95 of 100 are in the mart within {measured} seconds" in readme


def test_the_index_lists_every_decision_and_their_numbers_follow_one_another() -> None:
    index = (PROJECT / "docs" / "index.md").read_text()
    assert re.findall(r"\((adr/[^)]+)\)", index) == [f"adr/{page.name}" for page in ADRS]
    numbers = [int(page.name[:4]) for page in ADRS]
    assert len(set(numbers)) == len(numbers), "two decisions share a number"
    assert [f"# {number}. " for number in numbers] == [re.match(r"# \d+\. ", page.read_text())[0] for page in ADRS]


def test_the_glossary_explains_every_state_and_every_rule_reason_is_in_the_runbook() -> None:
    runbook = (PROJECT / "docs" / "runbook.md").read_text()
    rules = load(PROJECT / "warehouse" / "pipelines" / "orders.toml", PROJECT).rules
    assert [rule.name for rule in rules if f"`{rule.name}`" not in runbook] == []
    glossary = (PROJECT / "docs" / "glossary.md").read_text()
    words = (
        "route",
        "batch",
        "claim",
        "verdict",
        "ledger",
        "audit",
        "decision",
        "held",
        "released",
        "runner",
        "backlog",
    )
    assert [word for word in words if f"| {word} |" not in glossary] == []


def test_a_screenshot_stays_small_enough_for_a_clone() -> None:
    heavy = [file.name for file in (PROJECT / "docs" / "images").iterdir() if file.stat().st_size >= 300_000]
    assert heavy == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("see [it](no/such/page.md)", "no/such/page.md"),
        ("see [it](README.md#no-such-heading)", "README.md#no-such-heading"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(text: str, wrong: str) -> None:
    assert list(broken_links(PROJECT / "page.md", text)) == [wrong]


@pytest.mark.parametrize("call", ["fly", "run --fast", "generate everything", "status --jsn"])
def test_a_call_of_something_that_does_not_exist_is_found(call: str) -> None:
    (found,) = in_code(CALL, f"do this:\n\n```sh\nfrontstage {call}  # why\n```\n")
    assert refusal(found) is not None


def test_names_in_blocks_and_in_spans_are_both_found() -> None:
    text = "Type `make fly`, or\n\n```sh\nmake swim   # to make haste\n```\n\nand etl/no.py or `etl/none.py`."
    assert in_code(TARGET, text) == ["swim", "fly"]
    assert in_code(SOURCE, text) == ["etl/none.py"]

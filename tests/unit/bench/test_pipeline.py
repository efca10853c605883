"""The benchmark of whole micro-batches: its orders, its driver, and what its results say. No Spark, no Postgres."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench import page
from bench.pipeline import __main__ as command
from bench.pipeline import before_tree, plots, probe
from bench.pipeline.drive import Drive, WrongAnswer
from bench.pipeline.orders import Kinds, Orders, with_backlog, without_backlog
from bench.pipeline.plan import (
    CONTENDERS,
    MASTERS,
    MORE_MASTERS,
    SIZES,
    UNCHECKED,
    Cell,
    NotMeasured,
    Site,
    Task,
    UnknownContender,
    sites_of,
)
from bench.pipeline.results import aims, gained, growth, table
from etl import settings as configuration
from etl.errors import MissingPart, TerminalError

CUSTOMERS = 1_000


def task(*sites: Site, orders: Path = Path("orders"), budget_s: float = 1e6) -> Task:
    dsns = {site.name: f"dsn of {site.name}" for site in sites}
    return Task("plain", "folder", str(orders), "jars", sites, dsns, {"password": "secret"}, budget_s)


# --- the orders


def order_ids(orders: Orders, size: int, number: int) -> Counter[int]:
    ids: Counter[int] = Counter()
    for file in orders.batch(size, number).files:
        for line in file.read_bytes().splitlines():
            try:
                found = json.loads(line)["order_id"]
            except (ValueError, TypeError, KeyError):
                continue
            ids[found] += found is not None
    return ids


def test_a_batch_repeats_orders_of_its_own_and_of_no_other_batch(tmp_path: Path) -> None:
    orders = Orders(tmp_path, CUSTOMERS)
    for size in (100, 3_000):
        orders.make(size, range(2))
    ids = [order_ids(orders, size, number) for size in (100, 3_000) for number in range(2)]
    assert any(count > 1 for count in ids[2].values())
    assert all(one.keys().isdisjoint(other) for one in ids for other in ids if one is not other)


def test_every_line_of_a_batch_is_of_some_kind_and_batches_differ(tmp_path: Path) -> None:
    orders = Orders(tmp_path, CUSTOMERS)
    assert orders.make(3_000, range(2)) == 2
    first, second = orders.batch(3_000, 0), orders.batch(3_000, 1)
    lines = [line for file in first.files for line in file.read_bytes().splitlines()]
    assert len(lines) == 3_000 == sum(first.kinds.values()) - first.kinds["glued"]
    assert first.files[0].read_bytes() != second.files[0].read_bytes()
    for place in (with_backlog, without_backlog):
        assert sum(place(first.kinds).values()) == 3_000


def test_batches_are_made_once(tmp_path: Path) -> None:
    orders = Orders(tmp_path, CUSTOMERS)
    assert orders.make(100, range(3)) == 3
    assert orders.make(100, range(5)) == 2
    assert orders.make(0, range(5)) == 0
    assert orders.batch(0, 0).files == ()


def test_a_plain_script_rejects_who_waits_and_drops_who_conflicts() -> None:
    kinds = {"clean": 90, "duplicate": 1, "conflict": 2, "malformed": 3, "late_customer": 4}
    assert with_backlog(kinds) == {"fact": 90, "rejects": 5, "backlog": 4, "duplicates": 1}
    assert without_backlog(kinds) == {"fact": 90, "rejects": 7, "backlog": 0, "duplicates": 3}


def test_of_two_objects_on_a_line_a_plain_script_takes_the_first() -> None:
    kinds = {"clean": 90, "malformed": 4, "out_of_range": 1, "glued": 2}
    assert with_backlog(kinds)["fact"] == 90
    assert without_backlog(kinds) == {"fact": 92, "rejects": 3, "backlog": 0, "duplicates": 0}


# --- the plan


@pytest.mark.parametrize("contender", CONTENDERS)
def test_a_task_reaches_its_process_as_it_was(contender: str) -> None:
    whole = task(*sites_of(contender, SIZES, MORE_MASTERS, 20))
    assert Task.from_json(whole.to_json()) == whole
    assert "secret" not in repr(whole)


def test_every_contender_meets_every_size_and_only_ours_a_long_history() -> None:
    for contender in CONTENDERS:
        main, *others = sites_of(contender, SIZES, MORE_MASTERS, 200)
        assert {cell.size for cell in main.cells} - {0} == set(SIZES)
        assert [site.name for site in others if site.history] == (["history"] if contender == "ours" else [])
    with pytest.raises(UnknownContender, match="allowed are before, plain, ours"):
        sites_of("nobody", SIZES, None, 0)


def test_contenders_that_an_aim_compares_have_the_same_warm_up() -> None:
    main = {name: sites_of(name, SIZES, None, 0)[0].cells for name in CONTENDERS}
    for size in (100, 5_000, 50_000):
        warmups = {cell.warmups for cells in main.values() for cell in cells if cell.size == size}
        assert len(warmups) == 1
    assert {cell.warmups for name in ("plain", "ours") for cell in main[name] if cell.size == 500_000} == {1}


# --- the driver


@dataclass
class Script:
    """A pipeline that takes a second a line, and puts every line where it belongs unless it is to lose some."""

    now: list[float]
    lost: int
    tables: Path = Path("tables")
    lines: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    checked: list[bool] = field(default_factory=list)
    closed: bool = False

    def land(self, files: Sequence[Path]) -> None:
        self.lines = sum(len(file.read_bytes().splitlines()) for file in files)
        for batch in {file.name[:-11] for file in files}:
            self.kinds.update(json.loads((files[0].parent / f"{batch}.json").read_text()))

    def run(self, *, checkpoint: bool) -> dict[str, float]:
        self.checked.append(checkpoint)
        self.now[0] += self.lines
        return {"all": float(self.lines)}

    def counts(self) -> Kinds:
        found = without_backlog(self.kinds)
        return {**found, "fact": found["fact"] - self.lost}

    def expected(self, kinds: Kinds) -> Kinds:
        return without_backlog(kinds)

    def close(self) -> None:
        self.closed = True


@dataclass
class Scripts:
    """A session of such pipelines, with a clock that only they move."""

    lost: int = 0
    spark: Any = None
    now: list[float] = field(default_factory=lambda: [0.0])
    opened: list[Script] = field(default_factory=list)

    def open(self, _site: Site) -> Script:
        self.opened.append(Script(self.now, self.lost))
        return self.opened[-1]

    def drive(self, whole: Task) -> Drive:
        drive = Drive(whole, lambda *_: Stopwatch(), lambda: self.now[0])
        drive.run(self)
        return drive


class Stopwatch:
    """Believes the seconds that a pipeline tells."""

    def measure(self, work: Callable[[], dict[str, float]]) -> dict[str, Any]:
        phases = work()
        counters = ("spark_jobs", "spark_stages", "log_entries", "delta_bytes", "wal_bytes", "driver_bytes")
        counted = dict.fromkeys(counters, 3)
        return {"seconds": sum(phases.values()), "phases": phases, **counted}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("orders")
    for size in (10, 50):
        Orders(root, CUSTOMERS).make(size, range(12))
    return root


def cell(size: int, *variants: str, warmups: int = 1, timed: int = 3, budget_s: float = 1e6) -> Cell:
    return Cell(size, variants or ("plain",), warmups, timed, budget_s)


def test_warm_up_is_not_counted_and_variants_take_turns(made: Path) -> None:
    scripts = Scripts()
    both = cell(10, "plain", UNCHECKED, warmups=2)
    drive = scripts.drive(task(Site("main", CUSTOMERS, (both,)), orders=made))
    assert [row["contender"] for row in drive.rows] == ["plain", UNCHECKED]
    assert all(row["seconds_of_batches"] == [10.0] * 3 for row in drive.rows)
    assert [row["most_spark_jobs"] for row in drive.rows] == [3, 3]
    assert scripts.opened[0].checked == [True, False] * 5
    assert scripts.opened[0].closed


def test_a_cell_ends_when_its_time_is_up_with_at_least_one_batch(made: Path) -> None:
    cells = (cell(10, timed=8, budget_s=25.0), cell(50, timed=8, budget_s=1.0))
    drive = Scripts().drive(task(Site("main", CUSTOMERS, cells), orders=made))
    assert [len(row["seconds_of_batches"]) for row in drive.rows] == [3, 1]


def test_what_a_contender_has_no_time_for_is_named(made: Path) -> None:
    sites = (Site("main", CUSTOMERS, (cell(10), cell(50))), Site("more-masters", CUSTOMERS, (cell(10),)))
    drive = Scripts().drive(task(*sites, orders=made, budget_s=39.0))
    assert [row["batch"] for row in drive.rows] == [10]
    assert drive.result()["left_out"] == ["main, 50 orders", "more-masters"]


def test_a_history_keeps_every_batch_by_its_number(made: Path) -> None:
    long = Site("history", CUSTOMERS, (cell(10, warmups=0, timed=4),), history=True)
    drive = Scripts().drive(task(long, orders=made))
    assert drive.rows == []
    assert [row["number"] for row in drive.history] == [1, 2, 3, 4]
    assert [row["spark_jobs"] for row in drive.history] == [3] * 4


def test_who_loses_an_order_has_no_time(made: Path) -> None:
    with pytest.raises(WrongAnswer, match="plain ended with"):
        Scripts(lost=1).drive(task(Site("main", CUSTOMERS, (cell(10),)), orders=made))


def test_bytes_and_log_entries_are_counted_below_a_folder(tmp_path: Path) -> None:
    log = tmp_path / "fact" / "_delta_log"
    log.mkdir(parents=True)
    for name in ("00000.json", "00001.json", "00001.crc", ".00001.json.crc"):
        (log / name).write_bytes(b"12345")
    (tmp_path / "fact" / "part.parquet").write_bytes(b"x" * 100)
    assert probe.on_disk(tmp_path) == (2, 120)
    assert probe.on_disk(tmp_path / "nothing") == (0, 0)


# --- the tree of `before`


def test_the_old_tree_comes_first_and_settings_of_the_user_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRONTSTAGE_TACTIC", "inlj")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    given = before_tree.environment(Path("old"))
    assert given["PYTHONPATH"].split(":")[0] == "old"
    assert "elsewhere" not in given["PYTHONPATH"]
    assert "FRONTSTAGE_TACTIC" not in given


def test_a_history_that_is_not_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(before_tree, "COMMIT", "0000000000000000000000000000000000000000")
    with pytest.raises(MissingPart, match=r"cannot be checked out .* leave out the contender"):
        before_tree.ensure(tmp_path / "before")


# --- results


def row(contender: str, batch: int, seconds: float, masters: int = MASTERS, jobs: int = 2) -> dict[str, Any]:
    return {
        "contender": contender, "masters": masters, "batch": batch, "seconds": seconds, "seconds_of_batches": [seconds],
        "phases": {"fact": seconds / 2, "mart": seconds / 2}, "spark_jobs": jobs if batch else 0, "spark_stages": jobs,
        "log_entries": 2 if batch else 0, "delta_bytes": 2**20, "wal_bytes": 2**20,
    }  # fmt: skip


def complete(ours: float = 4.0) -> dict[str, Any]:
    rows = [row("ours", size, ours) for size in (0, *SIZES)]
    rows += [row("ours", size, ours * 1.2, MORE_MASTERS) for size in (100, 50_000)]
    rows += [row("before", size, 40.0, jobs=64) for size in SIZES]
    rows += [row("plain", size, 10.0, jobs=43) for size in SIZES]
    rows += [row(UNCHECKED, size, 5.0, jobs=9) for size in SIZES]
    history = [{"number": n, "seconds": 2.0 + n / 1_000, "driver_bytes": n * 50 * 1024} for n in range(1, 206)]
    fresh = [{"batch": size, "every_s": 30, "waves": 8, "p50_s": 5.0, "p95_s": 7.0} for size in (50_000, 100)]
    return command.result_of(rows, history, fresh, {})


def verdicts(result: dict[str, Any]) -> dict[str, tuple[Any, bool]]:
    return {aim["name"]: (aim["measured"], aim["met"]) for aim in result["aims"]}


def test_aims_are_met_by_what_was_measured() -> None:
    assert all(aim["met"] for aim in complete()["aims"])
    found = verdicts(complete())
    assert found["before / ours, 50,000 orders"] == (10.0, True)
    assert found["ours / plain, 50,000 orders"] == (0.4, True)
    assert found["Spark jobs and log entries of an empty run"] == (0, True)


def test_one_batch_with_too_many_spark_jobs_is_noticed_among_many() -> None:
    name, rows = "Spark jobs per batch, the most", [{**row("ours", 100, 1.0), "most_spark_jobs": 7}]
    assert verdicts(command.result_of(rows, [], [], {}))[name] == (7, False)
    history = [{"number": 1, "seconds": 1.0, "driver_bytes": 0, "spark_jobs": 8}]
    assert verdicts(command.result_of(rows, history, [], {}))[name] == (8, False)


def test_aims_are_missed_by_a_slower_pipeline() -> None:
    found = verdicts(complete(ours=6.0))
    assert found["before / ours, 100 orders"] == (6.667, False)
    assert found["ours / plain, 50,000 orders"] == (0.6, False)
    assert found[f"ours / {UNCHECKED}, 500,000 orders"] == (1.2, False)


def test_what_was_not_measured_is_not_met() -> None:
    found = aims({"rows": [row("plain", 100, 5.0)], "history": [], "freshness": []})
    assert len(found) == len(complete()["aims"])
    assert all(aim["measured"] is None and not aim["met"] for aim in found)


def test_batch_200_is_compared_with_batch_10_by_medians() -> None:
    history = [{"number": number, "seconds": 1.0 if number <= 10 else 1.5} for number in range(1, 206)]
    history[199]["seconds"] = 60.0  # one slow batch is no trend
    assert growth(history) == 1.5
    assert growth(history[:150]) is None


def test_memory_that_every_batch_adds_is_told_in_kib() -> None:
    found = verdicts(complete())
    assert found["memory the driver's Python gains per batch from 100 to 200, KiB"] == (50.0, True)
    assert gained([{"number": n, "driver_bytes": n * 2**20} for n in range(1, 201)]) == 1024.0
    assert gained([{"number": n, "driver_bytes": 0} for n in range(1, 200)]) is None


def test_the_table_says_what_is_missed_and_what_is_missing() -> None:
    result = command.result_of([row("plain", 100, 5.0)], [], [], {"ours": "no core"})
    text = table(result)
    assert "MISSED before / ours, 50,000 orders: not measured (wanted ≥ 8)" in text
    assert "NOT MEASURED ours: no core" in text


def test_the_page_shows_every_contender_size_and_aim(tmp_path: Path) -> None:
    (tmp_path / "pipeline.json").write_text(json.dumps(complete()))
    text = page.render(tmp_path, tmp_path / "page.md")
    section = text[text.index("## A whole micro-batch") : text.index("## Against")]
    assert "pipeline.svg" in section
    for words in ("500,000 orders", f"{UNCHECKED}, masters 100,000", "64 / 64, 2, 1.0 + 1.0", "200: 2.20 s", "7.0"):
        assert words in section
    assert section.count("| met |") == len(complete()["aims"])


def test_the_page_can_be_written_when_nothing_was_measured(tmp_path: Path) -> None:
    (tmp_path / "pipeline.json").write_text(json.dumps(command.result_of([], [], [], {"ours": "no core"})))
    section = page.render(tmp_path, tmp_path / "page.md")
    assert "not measured, ours: no core" in section
    assert "pipeline.svg" not in section


def test_the_plot_is_drawn_from_the_rows(tmp_path: Path) -> None:
    drawn = plots.draw(complete(), tmp_path)
    assert drawn is not None
    assert "by batch size" in drawn.read_text()
    assert plots.draw(command.result_of([], [], [], {}), tmp_path) is None


# --- the command


@pytest.mark.parametrize("options", [["--batches", "0"], ["--minutes", "-1"]])
def test_options_that_make_no_sense_are_refused(options: list[str]) -> None:
    with pytest.raises(TerminalError, match="is not allowed"):
        command.run_of(command.parsed(options), configuration.load())


def test_a_contender_that_fails_is_told_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def contender(_run: command.Run, name: str) -> dict[str, Any]:
        if name == "ours":
            raise NotMeasured("ours", "there is no core")
        return {"rows": [row(name, 100, 5.0)], "history": [], "left_out": ["main, 500,000 orders"]}

    monkeypatch.setattr(command, "run_contender", contender)
    run = command.run_of(command.parsed(["--without-airflow"]), configuration.load(var=tmp_path))
    result = command.measure(run, tmp_path / "pipeline.json")
    assert [one["contender"] for one in result["rows"]] == ["before", "plain"]
    assert result["not_measured"]["ours"] == "ours cannot be measured: there is no core"
    assert result["not_measured"]["before: main, 500,000 orders"] == "the time was up"
    assert list(tmp_path.glob("*.partial.json")) == []


def test_a_failure_names_no_folder_of_this_machine() -> None:
    log = configuration.PROJECT / "var" / "bench" / "pipeline" / "ours" / "log.txt"
    told = str(command.ContenderFailed("ours", "no core", log))
    assert told == "contender ours failed: no core (see var/bench/pipeline/ours/log.txt)"

"""Files appear whole, under names nobody else uses; a live stream keeps its rate by the clock it is given."""

from __future__ import annotations

import errno
import os
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from etl.samples import (
    LandingRefused,
    LandingWriter,
    OptionRefused,
    OrderConfig,
    OrderStream,
    Tally,
    generate_orders,
    order_waves,
)
from etl.samples.live import live

START = datetime(2026, 11, 16, 10, tzinfo=UTC)
CONFIG = OrderConfig(seed=2, customers=500, products=100)


def content(landing: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(landing.iterdir())}


class Shop:
    """A clock that moves only when somebody sleeps, and an end of day."""

    def __init__(self, ticks: int) -> None:
        self.now, self.left, self.pauses = START, ticks, dict[int, timedelta]()

    def clock(self) -> datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.left -= 1
        self.now += self.pauses.get(self.left, timedelta(seconds=seconds))

    def closed(self) -> bool:
        return self.left == 0


def test_waves_land_in_files_of_the_chosen_size_with_every_line(tmp_path: Path) -> None:
    tallies = generate_orders(tmp_path / "landing", CONFIG, 2, 1_000, 300, START)
    files = content(tmp_path / "landing")
    assert list(files) == [f"orders-a-{wave:06}-{part:04}.jsonl" for wave in range(2) for part in range(4)]
    assert [text.count(b"\n") for text in files.values()] == [300, 300, 300, 100] * 2
    assert all(text.endswith(b"\n") for text in files.values())
    assert [(tally.lines, tally.files) for tally in tallies] == [(1_000, 4)] * 2
    assert sum(tally.size_bytes for tally in tallies) == sum(map(len, files.values()))


def test_the_same_seed_lands_the_same_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        generate_orders(tmp_path / name, CONFIG, 3, 500, 200, START)
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_a_wave_is_written_only_when_it_is_asked_for(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    waves = order_waves(tmp_path, CONFIG, 3, 100, 100, START, lambda *step: seen.append(step))
    assert len(content(tmp_path)) == 0
    next(waves)
    assert len(content(tmp_path)) == 1
    assert len(list(waves)) == 2
    assert seen == [("orders", 100, 300), ("orders", 200, 300), ("orders", 300, 300)]


def test_whoever_watches_the_folder_never_sees_part_of_a_file(tmp_path: Path) -> None:
    data = b'{"order_id":1}\n' * 200_000
    writer, done, sizes = LandingWriter(tmp_path, "a"), threading.Event(), set[int]()

    def watch() -> None:
        while not done.is_set():
            sizes.update(path.stat().st_size for path in tmp_path.glob("orders-*.jsonl"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(20):
        writer.publish(f"orders-a-{number}.jsonl", data)
    done.set()
    watcher.join(timeout=30)
    assert not watcher.is_alive()
    assert sizes == {len(data)}


def test_bytes_are_on_disk_before_the_name_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    real_fsync, real_rename = os.fsync, Path.rename

    def fsync(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        assert kind == "folder" or os.fstat(descriptor).st_size == 5, "synced before everything was written"
        events.append(f"sync {kind}")
        real_fsync(descriptor)

    def rename(draft: Path, target: Path) -> Path:
        assert draft.name.startswith("."), "readers skip dot-files"
        assert draft.parent == target.parent, "a rename is atomic only within its folder"
        events.append("rename")
        return real_rename(draft, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    LandingWriter(tmp_path, "a").publish("orders-a-0.jsonl", b"{}\n{}")
    assert events == ["sync file", "rename", "sync folder"]


def test_a_second_generator_of_the_same_stream_is_told_and_changes_nothing(tmp_path: Path) -> None:
    generate_orders(tmp_path, CONFIG, 1, 100, 100, START)
    before = content(tmp_path)
    with pytest.raises(LandingRefused, match="another generator of this stream wrote it"):
        generate_orders(tmp_path, OrderConfig(seed=3), 1, 100, 100, START)
    assert content(tmp_path) == before


def test_a_full_disk_is_one_sentence_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LandingRefused, match="No space left on device; free disk space"):
        LandingWriter(tmp_path, "a").publish("orders-a-0.jsonl", b"{}\n")
    assert content(tmp_path) == {}


def test_a_landing_path_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "landing").write_text("")
    with pytest.raises(LandingRefused, match=r"landing cannot be written: File exists"):
        LandingWriter(tmp_path / "landing", "a")


@pytest.mark.parametrize("lines_per_file", [0, -1, 1_000_001])
def test_a_file_size_that_makes_no_sense_is_refused(tmp_path: Path, lines_per_file: int) -> None:
    with pytest.raises(OptionRefused, match=rf"^lines_per_file={lines_per_file} is not allowed"):
        LandingWriter(tmp_path, "a").write(OrderStream(CONFIG).wave(10, START), lines_per_file)


def test_the_live_stream_drops_a_file_a_second_at_the_chosen_rate(tmp_path: Path) -> None:
    shop = Shop(ticks=10)
    tally = live(CONFIG, tmp_path, 25, shop.closed, clock=shop.clock, sleep=shop.sleep)
    files = content(tmp_path)
    assert [text.count(b"\n") for text in files.values()] == [25] * 10
    assert (tally.lines, tally.files) == (250, 10)


def test_a_slow_live_stream_drops_a_line_when_one_is_due(tmp_path: Path) -> None:
    shop = Shop(ticks=40)
    tally = live(CONFIG, tmp_path, 0.25, shop.closed, clock=shop.clock, sleep=shop.sleep)
    assert tally.lines == tally.files == len(content(tmp_path)) == 10


def test_a_rate_that_is_no_whole_number_is_kept_over_time(tmp_path: Path) -> None:
    shop = Shop(ticks=8)
    tally = live(CONFIG, tmp_path, 2.5, shop.closed, clock=shop.clock, sleep=shop.sleep)
    assert tally.lines == 20


def test_live_orders_are_dated_within_the_second_before_their_file(tmp_path: Path) -> None:
    shop = Shop(ticks=2)
    live(CONFIG, tmp_path, 4, shop.closed, clock=shop.clock, sleep=shop.sleep)
    second = list(content(tmp_path).values())[1]
    assert b'"ordered_at":"2026-11-16T10:00:01.250Z"' in second


def test_after_a_pause_a_live_stream_does_not_flood(tmp_path: Path) -> None:
    shop = Shop(ticks=3)
    shop.pauses = {1: timedelta(hours=8)}
    assert live(CONFIG, tmp_path, 10, shop.closed, clock=shop.clock, sleep=shop.sleep).lines == 10 + 100 + 10


def test_a_clock_that_is_set_back_does_not_stop_a_live_stream(tmp_path: Path) -> None:
    shop = Shop(ticks=3)
    shop.pauses = {1: timedelta(hours=-1)}
    assert live(CONFIG, tmp_path, 10, shop.closed, clock=shop.clock, sleep=shop.sleep).lines == 20


def test_late_customers_arrive_once_after_the_given_time(tmp_path: Path) -> None:
    shop, arrivals = Shop(ticks=10), list[datetime]()
    live(
        CONFIG, tmp_path, 1, shop.closed, clock=shop.clock, sleep=shop.sleep,
        arrive=lambda: arrivals.append(shop.now), arrive_after=timedelta(seconds=4),
    )  # fmt: skip
    assert arrivals == [START + timedelta(seconds=4)]


def test_two_live_streams_in_one_folder_never_collide(tmp_path: Path) -> None:
    shop = Shop(ticks=3)
    first = live(CONFIG, tmp_path, 5, shop.closed, clock=shop.clock, sleep=shop.sleep)
    shop.left = 3
    second = live(CONFIG, tmp_path, 5, shop.closed, clock=shop.clock, sleep=shop.sleep)
    assert len(content(tmp_path)) == (first + second).files == 6


def test_a_live_stream_ends_when_its_event_is_set(tmp_path: Path) -> None:
    stop, result = threading.Event(), list[Tally]()
    thread = threading.Thread(
        target=lambda: result.append(
            live(CONFIG, tmp_path, 1_000, stop.is_set, sleep=stop.wait, every=timedelta(milliseconds=5))
        )
    )
    thread.start()
    for _ in range(10_000):
        if stop.wait(0.001) or any(tmp_path.glob("orders-*")):
            break
    stop.set()
    thread.join(timeout=30)
    assert result, "the stream did not end"
    assert result[0].lines > 0
    assert result[0].lines == sum(text.count(b"\n") for text in content(tmp_path).values())


@pytest.mark.parametrize("rate", [0, -1, float("nan"), 10**9])
def test_a_rate_that_makes_no_sense_is_refused(tmp_path: Path, rate: float) -> None:
    with pytest.raises(OptionRefused, match=r"^rate_per_s=.* is not allowed; give above 0"):
        live(CONFIG, tmp_path, rate, lambda: True)

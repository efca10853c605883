"""Order files, written atomically.

    .orders-<stream>-<wave>-<part>.jsonl.part   written, synced  (a dot-file: readers of the folder skip it)
          └─ rename ─►  orders-<stream>-<wave>-<part>.jsonl      one instant; then the folder is synced

The dot-file is created exclusively and the final name is checked while it exists, so two generators that
were given the same stream name cannot overwrite each other: the second gets an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from etl.errors import TerminalError
from etl.samples.config import OrderConfig, require
from etl.samples.load import Progress, silent
from etl.samples.orders import MOST_LINES_PER_PART, OrderStream, Wave
from etl.samples.tally import Tally


class LandingRefused(TerminalError):
    """A file cannot be written to the landing folder."""

    exit_code = 73  # EX_CANTCREAT

    def __init__(self, path: str, reason: str, remedy: str) -> None:
        super().__init__(path, reason, remedy)
        self.path, self.reason, self.remedy = path, reason, remedy

    def __str__(self) -> str:
        return f"{self.path} cannot be written: {self.reason}; {self.remedy}"


class LandingWriter:
    """Writes the waves of one stream into one folder."""

    def __init__(self, landing: Path, stream: str) -> None:
        self.landing, self.stream = landing, stream
        try:
            landing.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _refusal(landing, error) from None

    def write(self, wave: Wave, lines_per_file: int) -> Tally:
        """Write all lines of a wave, in files of at most `lines_per_file`. Returns their tally."""
        require(
            1 <= lines_per_file <= MOST_LINES_PER_PART,
            "lines_per_file",
            lines_per_file,
            f"1 to {MOST_LINES_PER_PART:,}",
        )
        total = Tally()
        for number, part in enumerate(wave.parts(lines_per_file)):
            self.publish(f"orders-{self.stream}-{wave.number:06}-{number:04}.jsonl", part.data)
            total += part.tally + Tally(files=1)
        return total

    def publish(self, name: str, data: bytes | memoryview) -> Path:
        """Write one file atomically and synced."""
        target, draft = self.landing / name, self.landing / f".{name}.part"
        try:
            with draft.open("xb") as file:
                try:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                    if target.exists():
                        raise FileExistsError
                    draft.rename(target)
                except BaseException:
                    draft.unlink(missing_ok=True)
                    raise
            _sync_folder(self.landing)
        except FileExistsError:
            reason = "another generator of this stream wrote it or is writing it"
            raise LandingRefused(
                str(target), reason, "give this one another stream name, or empty the folder"
            ) from None
        except OSError as error:
            raise _refusal(target, error) from None
        return target


def generate_orders(
    landing: Path,
    config: OrderConfig,
    waves: int,
    orders_per_wave: int,
    lines_per_file: int,
    start: datetime,
    progress: Progress = silent,
    *,
    lasting: timedelta = timedelta(minutes=1),
) -> list[Tally]:
    """Write all waves now. Returns one tally per wave."""
    return list(order_waves(landing, config, waves, orders_per_wave, lines_per_file, start, progress, lasting=lasting))


def order_waves(
    landing: Path,
    config: OrderConfig,
    waves: int,
    orders_per_wave: int,
    lines_per_file: int,
    start: datetime,
    progress: Progress = silent,
    *,
    lasting: timedelta = timedelta(minutes=1),
) -> Iterator[Tally]:
    """Write a wave each time one is asked for; orders of wave w date from `start` + w · `lasting`."""
    require(waves >= 0, "waves", waves, "0 or more")
    writer, stream = LandingWriter(landing, config.stream), OrderStream(config)
    for number in range(waves):
        tally = writer.write(stream.wave(orders_per_wave, start + number * lasting, lasting), lines_per_file)
        progress("orders", (number + 1) * orders_per_wave, waves * orders_per_wave)
        yield tally


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refusal(path: Path, error: OSError) -> LandingRefused:
    remedy = "free disk space, allow writing there, or set FRONTSTAGE_LANDING to another folder"
    return LandingRefused(str(path), error.strerror or str(error), remedy)

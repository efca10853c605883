"""`python -m bench.biclique`: figures in counters and in time, beside peers; one line per figure as it goes.

--only 6a,11   some figures; the others keep their last results
--scale 0.1    TPC-H scale factor
--quick        peers with small windows, to see that they run; their figure is shown and not kept
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

from bench import plots
from bench.biclique import bandwidth, elastic, kernel, memory, page, skew, work
from bench.biclique.peers import figure as peers
from bench.biclique.result import Figure, Row, store
from bench.measured import RESULTS, exit_code, progress

FIGURES: dict[str, Callable[[float], Figure]] = {
    "6a": memory.consumption, "6b": memory.windows, "7": work.along, "8": work.volumes, "9": work.latency,
    "7t": work.along_in_time, "8t": work.volumes_in_time, "9t": work.latency_in_time,
    "10": memory.scalability, "11": bandwidth.sent, "12": elastic.following, "14": bandwidth.views,
    "T4": memory.largest_window, "SGR": memory.gain, "skew": skew.balance, "kernel": kernel.speed,
    "peers": peers.compared,
}  # fmt: skip


def chosen(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in FIGURES:
            raise argparse.ArgumentTypeError(f"there is no figure {name!r}; choose among {', '.join(FIGURES)}")
    return names


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.biclique", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", type=chosen, default=list(FIGURES), help="figures, as in 6a,11")
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor (0.1: 600,000 line items)")
    parser.add_argument("--quick", action="store_true", help="peers with small windows; their figure is not kept")
    options = parser.parse_args(arguments)
    if options.quick:
        options.only.remove("peers")
        print(json.dumps(peers.compared(options.scale, peers.QUICK).rows(), indent=1))
    whole: Row = {"aims": []}
    for name in options.only:
        began = time.perf_counter()
        progress(f"{name:6} begins")
        figure = FIGURES[name](options.scale)
        seconds = round(time.perf_counter() - began, 1)
        whole = store([figure], {name: seconds})
        plots.draw(f"biclique-{name}", [figure.drawn()], RESULTS)
        page.write(whole)
        missed = [aim.name for aim in figure.aims if not aim.met]
        progress(f"{name:6} {figure.title} ({seconds:.0f} s){'; MISSED: ' + ', '.join(missed) if missed else ''}")
    return exit_code(whole)


if __name__ == "__main__":
    sys.exit(main())

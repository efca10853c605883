"""`python -m bench.adhoc --in-process`: the part of the benchmark that needs no Spark, with progress on the way."""

from __future__ import annotations

import argparse
import json
import sys

from bench.adhoc.in_process import ablations, idle_queries, parallel_queries
from bench.adhoc.workload import QueryShape

COUNTS = (1, 5, 20, 100, 500)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.adhoc", description=__doc__)
    parser.add_argument("--in-process", action="store_true", required=True, help="run the engine in this process")
    parser.add_argument("--rows", type=int, default=100_000, help="tuples per stream and slot")
    parser.add_argument("--most", type=int, default=500, help="the largest number of parallel queries")
    parser.add_argument("--json", action="store_true", help="print the result as JSON in the end")
    options = parser.parse_args(arguments)

    def say(line: str) -> None:
        print(line, flush=True)

    counts = tuple(count for count in COUNTS if count <= options.most)
    say("two-way joins without selections, count(*) (figure 15)")
    result: dict[str, object] = {"joins": parallel_queries(say, counts, options.rows, QueryShape(selections=False))}
    say("two-way joins with a selection on every stream, count(*)")
    result["selections"] = parallel_queries(say, counts, options.rows, QueryShape())
    say("three-way joins, count(*), one part switched off at a time (figure 21)")
    result["parts"] = ablations(say, 20, 4_000, QueryShape(ways=3, selectivity=0.5))
    say("three-way joins of 75 % similarity, count(*): join orders (figure 21)")
    result["orders"] = ablations(say, 50, 20_000, QueryShape(ways=3, similarity=0.75), ("no reordering",))
    say("two-way joins, rows; a tuple is wanted by 5 % of the queries (figure 22a)")
    few = QueryShape(selectivity=0.05, intervals=True, similarity=1.0, select="s0.a0")
    result["little_shared"] = ablations(say, 100, 30_000, few, ("no grouping",))
    result["idle"] = idle_queries(say)
    if options.json:
        print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

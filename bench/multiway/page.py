"""The measured part of docs/correlations-sites.md, between its two marks; every number comes from the results' JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.measured import RESULTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "correlations-sites.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
Result = dict[str, Any]


def write(page: Path = PAGE, results: Path = RESULTS) -> None:
    """Put the tables of a result into the page, or into a copy of it."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    measured = render(json.loads((results / "multiway.json").read_text()))
    page.write_text(f"{before}{BEGIN}\n{measured}\n{END}{after}")


def render(result: Result) -> str:
    parts = ["### Aims", _aims(result["aims"]), "### Real executions", _rows(result), _learning(result),
             "### The paper's figures"]  # fmt: skip
    for figure in result["figures"]:
        parts += [f"#### {figure['name']}: {figure['title']}",
                  f"![Figure {figure['name']}](../bench/results/multiway-{figure['name']}.svg)",
                  _claims(figure["claims"])]  # fmt: skip
    parts += ["### A plan, explained", f"```text\n{result['explanation']}\n```"]
    return "\n\n".join(parts)


def _aims(aims: list[Result]) -> str:
    lines = ["| aim | wanted | measured | met |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {one['name']} | {one['wanted']} | {one['measured']} | {'yes' if one['met'] else '**no**'} |" for one in aims
    ]
    return "\n".join(lines)


def _rows(result: Result) -> str:
    head = (
        "Five streams at three sites as folders; bytes shipped after the first batches. *Forecast* is the model from "
        "the sketches of the 250 seconds before, *true* the model that knows the distribution. `far apart` ships so "
        "few tuples that the heads of files weigh more than they; how many files hold any is reckoned by busy periods "
        "([ADR 91](adr/0091-files-of-joined-tuples-come-in-busy-periods.md)). What ships few tuples is executed with "
        "several draws, and the mean is shown."
    )
    lines = [
        head, "",
        "| streams | plan | bytes shipped | tuples | draws | measured / forecast | measured / true | plans "
        "| planning, s |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    lines += [
        f"| {row['workload']} | {row['plan']} | {row['measured_bytes']:,.0f} | {row['measured_tuples']:,.0f} | "
        f"{row['draws']} | "
        f"{row['measured_over_expected']:.3f} | {row['measured_over_true_model']:.3f} | "
        f"{row['plans']} | {row['planning_s']:.3f} |"
        for row in result["rows"]
    ]
    return "\n".join(lines)


def _learning(result: Result) -> str:
    """Forecast over truth, by workload and seconds learned."""
    rows = result["learning"]
    seconds = sorted({row["seconds"] for row in rows})
    lines = [
        "What a forecast for the optimum without partitions is off by is sampling, and falls as sketches learn:",
        "",
        f"| streams | {' | '.join(f'forecast / true after {each:g} s' for each in seconds)} |",
        f"| --- | {' | '.join('---:' for _ in seconds)} |",
    ]
    for name in dict.fromkeys(row["workload"] for row in rows):
        mine = {row["seconds"]: row["forecast_over_true"] for row in rows if row["workload"] == name}
        lines.append(f"| {name} | {' | '.join(f'{mine[each]:.3f}' for each in seconds)} |")
    return "\n".join(lines)


def _claims(claims: list[Result]) -> str:
    lines = ["| the paper | here | holds |", "| --- | --- | --- |"]
    return "\n".join(
        lines + [f"| {one['paper']} | {one['ours']} | {'yes' if one['holds'] else '**no**'} |" for one in claims]
    )


if __name__ == "__main__":
    write()

"""Commands of the examples, which `etl.cli` mounts: `frontstage generate …`, `demo` and `demo-correlations`."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from etl import settings as configuration

if TYPE_CHECKING:
    from etl.cli.console import Console

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same data.")]

app = typer.Typer(help="Make master data and orders to work on.", no_args_is_help=True)


@app.command("master")
def generate_master_data(
    customers: Annotated[int, typer.Option(min=1)] = 100_000,
    products: Annotated[int, typer.Option(min=1)] = 20_000,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Write customers and products into Postgres; rows that exist are brought back to their first state."""
    from etl.adapters import postgres
    from etl.cli.console import Console
    from etl.cli.database import migrated_database
    from etl.samples import generate_master

    own = configuration.load()
    with Console(stderr=as_json) as console, migrated_database(own) as dsn, postgres.connect(dsn) as connection:
        generate_master(
            connection, seed, customers, products,
            lambda what, done, total: console.doing(f"{done:,} of {total:,} {what}"),
        )  # fmt: skip
        console.say(f"{customers:,} customers and {products:,} products are in Postgres")
    _print_json({"customers": customers, "products": products}, wanted=as_json)


@app.command("orders")
def generate_order_files(
    count: Annotated[int, typer.Option(min=1, help="Lines of a wave, dirt included.")] = 50_000,
    waves: Annotated[int, typer.Option(min=1)] = 1,
    lines_per_file: Annotated[int, typer.Option(min=1)] = 10_000,
    seed: Seed = 1,
    customers: Annotated[int, typer.Option(min=1)] = 100_000,
    products: Annotated[int, typer.Option(min=1)] = 20_000,
    exponent_customers: Annotated[float, typer.Option(help="Skew of customers, 0 to 1.5.")] = 1.0,
    exponent_products: Annotated[float, typer.Option(help="Skew of products, 0 to 1.5.")] = 0.8,
    duplicates: Annotated[float, typer.Option(help="Share of exact duplicates.")] = 0.01,
    conflicts: Annotated[float, typer.Option(help="Share of known ids with another payload.")] = 0.002,
    malformed: Annotated[float, typer.Option(help="Share of malformed lines.")] = 0.003,
    unknown_customers: Annotated[float, typer.Option(help="Share whose customer never comes.")] = 0.002,
    late_customers: Annotated[float, typer.Option(help="Share whose customer comes later.")] = 0.01,
    out_of_range: Annotated[float, typer.Option(help="Share with values out of range.")] = 0.005,
    start: Annotated[
        datetime | None,
        typer.Option(help="Time of the first order (UTC). With it the same seed gives the same files."),
    ] = None,
    landing: Annotated[Path | None, typer.Option(help="Folder to write to; the landing folder when left out.")] = None,
    as_json: Json = False,
) -> None:
    """Write order files that appear whole in the landing folder."""
    from etl.cli.console import Console
    from etl.samples import OrderConfig, generate_orders
    from etl.samples.demo import landing_of

    config = OrderConfig(
        seed=seed, customers=customers, products=products, exponent_customers=exponent_customers,
        exponent_products=exponent_products, share_duplicates=duplicates, share_conflicts=conflicts,
        share_malformed=malformed, share_unknown_customers=unknown_customers,
        share_late_customers=late_customers, share_out_of_range=out_of_range,
    )  # fmt: skip
    now = datetime.now(UTC)
    config = config if start is not None else config.fresh(now)
    first = now if start is None else start.replace(tzinfo=UTC)
    folder = landing_of(configuration.load()) if landing is None else landing
    with Console(stderr=as_json) as console:
        tallies = generate_orders(folder, config, waves, count, lines_per_file, first)
        lines, files = sum(one.lines for one in tallies), sum(one.files for one in tallies)
        console.say(f"{lines:,} lines in {files} files landed in {folder}")
    _print_json({"lines": lines, "files": files, "landing": str(folder)}, wanted=as_json)


@app.command("live")
def generate_live(rate: Annotated[float, typer.Option(help="Orders per second.")] = 200.0, seed: Seed = 1) -> None:
    """Let orders land every second until interrupted; late customers arrive after two minutes."""
    from etl.adapters import postgres
    from etl.cli.database import existing_database
    from etl.samples import OrderConfig, arrive_late_customers
    from etl.samples.demo import landing_of
    from etl.samples.live import live

    own, config, stop = configuration.load(), OrderConfig(seed=seed), threading.Event()

    def arrive() -> None:
        with existing_database(own) as dsn, postgres.connect(dsn) as connection:
            arrive_late_customers(connection, config)

    live(config, landing_of(own), rate, stop.is_set, sleep=stop.wait, arrive=arrive)


@app.command("streams")
def generate_streams(
    orders: Annotated[int, typer.Option(min=1, help="Orders per wave.")] = 10_000,
    waves: Annotated[int, typer.Option(min=1, max=1000)] = 6,
    seed: Seed = 1,
    every: Annotated[float, typer.Option(min=0, help="Seconds between waves.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Let orders, payments and shipments land for the example correlations, a wave per twenty minutes of their time."""
    from etl.cli.console import Console
    from etl.samples.correlations.config import ShopConfig
    from etl.samples.correlations.waves import waves as landing

    own, stop = configuration.load(), threading.Event()
    config = ShopConfig(seed=seed, waves=waves, orders_per_wave=orders)
    start = datetime.now(UTC) - waves * config.lasting
    landed: list[int] = []
    with Console(stderr=as_json) as console:
        for number, wave in enumerate(landing(config, start, own.var / "landing"), start=1):
            lines = sum(one.lines for one in wave.values())
            console.say(f"wave {number} of {waves}: {lines:,} lines of {len(wave)} streams landed")
            landed.append(lines)
            stop.wait(every if number < waves else 0)
    _print_json({"landing": str(own.var / "landing"), "lines_per_wave": landed}, wanted=as_json)


@app.command("server-log")
def generate_server_log(
    documents: Annotated[int, typer.Option(min=1, help="Documents per wave.")] = 5_000,
    waves: Annotated[int, typer.Option(min=1, max=1000)] = 6,
    seed: Seed = 1,
    every: Annotated[float, typer.Option(min=0, help="Seconds between waves.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Let server logs land for the example of documents, a hundred per second of their time."""
    from etl.cli.console import Console
    from etl.samples.documents.landing import RATE_PER_S, land_server_log

    own, stop = configuration.load(), threading.Event()
    start = datetime.now(UTC) - timedelta(seconds=documents * waves / RATE_PER_S)
    landed: list[str] = []
    with Console(stderr=as_json) as console:
        for number, path in enumerate(land_server_log(own.var / "landing", start, documents, waves, seed), start=1):
            console.say(f"wave {number} of {waves}: {documents:,} documents landed in {path.name}")
            landed.append(str(path))
            stop.wait(every if number < waves else 0)
    _print_json({"documents_per_file": documents, "files": landed}, wanted=as_json)


def demo(
    customers: Annotated[int, typer.Option(min=1000)] = 100_000,
    products: Annotated[int, typer.Option(min=100)] = 20_000,
    orders: Annotated[int, typer.Option(min=1000)] = 200_000,
    waves: Annotated[int, typer.Option(min=1, max=20, help="Micro-batches to run.")] = 4,
    as_json: Json = False,
) -> None:
    """See it work: start everything, let Airflow run micro-batches, show where every order is, stop everything."""
    from etl.cli.console import Console
    from etl.samples import demo as demonstration

    home = configuration.load().var / "demo"
    places = {name: home / name for name in ("archive", "warehouse", "master_pages")}
    own = configuration.load(var=home, schedule="none", postgres_dsn=None, airflow_dsn=None, **places)
    size = demonstration.DemoSize(customers, products, orders, waves)
    with Console(stderr=as_json) as console:
        summary = demonstration.run(own, size, console)
        console.say("everything is stopped")
    if as_json:
        _print_json(summary)
        return
    _show_summary(console, summary, own.var / "summary.json")


def demo_correlations(
    orders: Annotated[int, typer.Option(min=100, help="Orders per wave.")] = 10_000,
    waves: Annotated[int, typer.Option(min=1, max=20, help="Micro-batches to run.")] = 6,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """See streams meet streams: orders, payments and shipments through Airflow, compared with the raw files."""
    from etl.cli.console import Console
    from etl.samples.correlations import demo as demonstration
    from etl.samples.correlations.config import ShopConfig

    home = configuration.load().var / "demo-correlations"
    places = {name: home / name for name in ("archive", "warehouse", "master_pages")}
    own = configuration.load(var=home, schedule="none", postgres_dsn=None, airflow_dsn=None, **places)
    with Console(stderr=as_json) as console:
        summary = demonstration.run(own, ShopConfig(seed=seed, waves=waves, orders_per_wave=orders), console)
        console.say("everything is stopped")
    if as_json:
        _print_json(summary)
        return
    columns = {"name": "correlation", "pairs": "pairs", "oracle_pairs": "oracle", "equal": "equal", "late": "late",
               "batches": "batches", "seconds": "seconds"}  # fmt: skip
    rows = [["yes" if name == "equal" else one[name] for name in columns] for one in summary["correlations"]]
    console.table("Every correlation holds what the raw files say", list(columns.values()), rows)
    typer.echo(f"reports  {own.reports / demonstration.DAG / 'index.html'}")
    typer.echo(f"summary  {own.var / 'summary.json'}")


def _print_json(value: dict[str, Any], *, wanted: bool = True) -> None:
    if wanted:
        typer.echo(json.dumps(value, indent=2))


def _show_summary(console: Console, summary: dict[str, Any], path: Path) -> None:
    places = ["orders_landed", "fact", "quarantine", "backlog_open", "duplicates"]
    console.table("Every order is in exactly one place", places, [[summary[name] for name in places]])
    freshness = summary["freshness_s"]
    console.table(
        "How it went",
        ["", "figure"],
        [
            ("answered by the front stage", f"{summary['hit_ratio']:.1%}"),
            ("orders that wait for a customer", summary["unmatched_open"]),
            ("from landing to the mart, median", f"{freshness['p50']:.1f} s"),
            ("from landing to the mart, 95 %", f"{freshness['p95']:.1f} s"),
            ("DAG runs, all successful", len(summary["dag_runs"])),
            ("longest DAG run", f"{max(run['seconds'] for run in summary['dag_runs']):.1f} s"),
        ],
    )
    typer.echo(f"run reports  {summary['reports']['run']}")
    typer.echo(f"data docs    {summary['reports']['data_docs']}")
    typer.echo(f"summary      {path}")

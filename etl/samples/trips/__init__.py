"""Example data of `warehouse/pipelines/trips.toml`: zones and drivers in Postgres, trips as Parquet."""

from etl.samples.trips.events import generate
from etl.samples.trips.masters import seed

__all__ = ["generate", "seed"]

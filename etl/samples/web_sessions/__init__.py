"""Example data of `warehouse/pipelines/web_sessions.toml`: sites in Postgres, campaigns in Delta, sessions as CSV."""

from etl.samples.web_sessions.events import generate
from etl.samples.web_sessions.masters import seed

__all__ = ["generate", "seed"]

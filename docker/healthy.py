"""`healthy.py PART` exits 0 when that part says it is well: the health check of all our services.

Airflow's API server knows the heartbeats of its siblings, so asking it is right for all four, and far cheaper
than starting an `airflow` command every few seconds.
"""

from __future__ import annotations

import sys

import httpx

RUNNER_SOCKET = "/opt/frontstage/var/run/runner.sock"
AIRFLOW = "http://api-server:8080/api/v2/monitor/health"
AIRFLOW_PARTS = {"scheduler": "scheduler", "dag-processor": "dag_processor", "triggerer": "triggerer"}
SPARK = {"spark-master": "http://spark-master:8080/json/", "spark-worker": "http://localhost:8081/json/"}


def healthy(part: str) -> bool:
    if part == "runner":
        with httpx.Client(transport=httpx.HTTPTransport(uds=RUNNER_SOCKET)) as client:
            return client.get("http://runner/health").is_success
    answer = httpx.get(SPARK.get(part, AIRFLOW), timeout=5, trust_env=False)
    if part in AIRFLOW_PARTS:
        return bool(answer.json()[AIRFLOW_PARTS[part]]["status"] == "healthy")
    return answer.is_success


if __name__ == "__main__":
    try:
        sys.exit(not healthy(sys.argv[1]))
    except (httpx.HTTPError, KeyError, TypeError, ValueError) as error:
        sys.exit(f"{sys.argv[1]} does not answer: {error!r}")

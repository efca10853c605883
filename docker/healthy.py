"""`healthy.py PART [SITE]` exits 0 when that part says it is well: the health check of all our services.

Airflow's API server knows the heartbeats of its siblings, so asking it is right for all four, and far cheaper
than starting an `airflow` command every few seconds. The worker of a site is asked through the broker: one that has
lost it takes no tasks, however well its process is.
"""

from __future__ import annotations

import os
import socket
import sys

import httpx

RUNNER_SOCKET = "/opt/frontstage/var/run/runner.sock"
AIRFLOW = "http://api-server:8080/api/v2/monitor/health"
AIRFLOW_PARTS = {"scheduler": "scheduler", "dag-processor": "dag_processor", "triggerer": "triggerer"}
SPARK = {"spark-master": "http://spark-master:8080/json/", "spark-worker": "http://localhost:8081/json/"}


def healthy(part: str, site: str = "") -> bool:
    if part == "site-worker":
        return takes_tasks(os.environ["AIRFLOW__CELERY__BROKER_URL"], f"{site}@{socket.gethostname()}")
    if part == "runner":
        with httpx.Client(transport=httpx.HTTPTransport(uds=RUNNER_SOCKET)) as client:
            return client.get("http://runner/health").is_success
    answer = httpx.get(SPARK.get(part, AIRFLOW), timeout=5, trust_env=False)
    if part in AIRFLOW_PARTS:
        return bool(answer.json()[AIRFLOW_PARTS[part]]["status"] == "healthy")
    return answer.is_success


def takes_tasks(broker: str, worker: str) -> bool:
    from celery import Celery
    from kombu.exceptions import OperationalError

    with Celery(broker=broker) as asking:
        asking.conf.broker_transport_options = {"socket_connect_timeout": 2, "socket_timeout": 2, "max_retries": 1}
        try:
            return bool(asking.control.ping(destination=[worker], timeout=4))
        except OperationalError as error:
            raise ValueError(type(error).__name__) from None  # its text may name the broker's address


if __name__ == "__main__":
    try:
        sys.exit(not healthy(*sys.argv[1:]))
    except (httpx.HTTPError, KeyError, TypeError, ValueError) as error:
        sys.exit(f"{sys.argv[1]} does not answer: {error!r}")

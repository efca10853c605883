"""`make soak`: the whole stack under a steady rate with bursts for some minutes, and whether anything grows.

    load      2,000 orders a second, every two minutes ten times as many for ten seconds; some of them are of customers
              who come up to two minutes later, so that a backlog fills and empties again
    stack     Airflow runs the pipeline's DAG on arrival, and ten times the maintenance DAG
    samples   memory and open files of every process, files that wait or that tables name, runs of claims, the backlog
    aims      what must be flat, done and fresh

Growth is the last quarter against the second one, the first is warm-up: medians of what should stay, peaks of what
rises and falls with maintenance. Processes that live for one task are sampled and not judged: how many there are at an
instant is chance. The process that lands the orders is the stack's supervisor as well; both are in `supervisor`.
"""

from bench.soak.page import section

__all__ = ["section"]

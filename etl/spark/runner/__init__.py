"""The resident Spark driver and its client: Spark starts once and stays warm for every step of every run.

service      the driver: HTTP over a Unix socket, one step per pipeline at a time; `watchdog` monitors its JVM
client       runs a step on the driver, or with its own Spark when there is none
calls        the models of requests, shared by both sides
connection   the connection between them
"""

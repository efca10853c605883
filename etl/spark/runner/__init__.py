"""The resident Spark driver and how to ask it: Spark starts once, and every step of every run finds it warm.

service      the driver: HTTP over a Unix socket, one step of a pipeline at a time; `watchdog` looks after its JVM
client       runs a step by asking the driver, or with a Spark of one's own when there is none
calls        what may be asked: the models that both sides read
connection   the line between them
"""

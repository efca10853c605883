"""Airflow on this machine: its processes, and a client.

services   their environment, and the service that runs them
host       Airflow is imported once, then each process is forked from it
client     a client of Airflow's REST API, for commands, the demo and tests
"""

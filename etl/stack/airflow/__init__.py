"""Airflow on this machine: its processes, and how they are spoken to.

services   their environment, and the service that runs them
host       Airflow is imported once, then each process is forked from it
client     Airflow's REST API, as commands, the demo and the tests need it
"""

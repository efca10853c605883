"""Queries by people: where events are, how a batch went and compares with others, why a pipeline is stuck."""

"""Streams of JSON documents for examples and benchmarks: NoBench and server logs, deterministic by seed."""

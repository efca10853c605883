"""Streams of JSON documents to try and to measure joins with: NoBench and server logs, the same for the same seed."""

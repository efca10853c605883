"""Inspection commands: diagnosis, backlog, event trace, explanation of joins, reports."""

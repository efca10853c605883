"""Adapters: the databases, tables and tools that the pipeline writes to, behind small interfaces of ours.

landing, kafka/       the sources of events: landed files, topics
ledger/               input, decision and state of every batch; `lease`: the writer's lock
    claims, losses    claimed keys; lost tries
    verdicts, profiles, digest_days   decisions of people; figures of batches and days
delta/, mart          the published tables: Delta and Postgres
great_expectations/   the audit and its pages
postgres/             connections, statements, COPY and migrations, for all of these
durable               atomic, synced file writes
"""

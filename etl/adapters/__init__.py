"""Adapters: the databases, tables and tools that the pipeline writes to, behind small interfaces of ours.

landing, kafka/       where events come from: files that land, topics
ledger/               what every batch reads and what became of it; `lease`: who may write
    claims, losses    which keys are taken; tries that were lost
    verdicts, profiles, digest_days   what people decided; figures of batches and days
delta/, mart          what is written for people who read: Delta tables, tables in Postgres
great_expectations/   the audit and its pages
postgres/             connections, statements, COPY and migrations, for all of these
durable               files that are on disk before anybody relies on them
"""

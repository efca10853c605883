"""The front stage: a cache of single master rows that is probed before the tactic (ADR 13, ADR 17).

port           the interface between a join and its front stage
stage, rows    the front stage of one join: probes, admission, eviction, all within a byte budget
shared         the same rows mapped by many workers, read-only
frequencies    key frequencies, which workers report and the policy learns from
policy         admission and eviction: paper, tinylfu, static
row_store      rows in Arrow segments, counted in bytes
expiring_keys  keys with a deadline: known absent, or withdrawn
"""

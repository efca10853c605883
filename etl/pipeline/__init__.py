"""One micro-batch, in order: `microbatch` reads top-down, `steps` are what DAGs and commands call.

fix input → read → parse → rules → claims → dedupe → enrich → route → write → decide        then audit, then publish
├ driver ┤├───── task: read ─────┤├──────────── task: route ───────────────┤├─ driver ────────────────────────────┤

    input        what a batch reads, and how much of it
    tasks        read and route, their parts, and what travels between them
    poison       input that tasks do not survive, found and set aside
    loading      from a decision to tables that people read: dimensions, mart, Delta logs
    review       decisions of people: refused lines, held batches, reprocessed days
    inspection   queries by people: where events are, how a batch went, why a pipeline is stuck
    upkeep       maintenance: compaction, garbage, retention
"""

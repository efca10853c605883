"""One micro-batch, in order: `microbatch` reads top-down, `steps` are what DAGs and commands call.

fix input → read → parse → rules → claims → dedupe → enrich → route → write → decide        then audit, then publish
├ driver ┤├───── task: read ─────┤├──────────── task: route ───────────────┤├─ driver ────────────────────────────┤

    input        what a batch finds to do, and how much of it
    tasks        read and route, their parts, and what travels between them
    loading      from a decision to tables that people read: dimensions, mart, Delta logs
    review       what people decide: refused lines, held batches, days that are read again
    inspection   what people ask: where events are, how a batch went, why nothing moves
    upkeep       what keeps batches cheap, what goes when it is old
"""

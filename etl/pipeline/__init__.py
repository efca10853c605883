"""One micro-batch, in order: `microbatch` reads top-down; the other modules are its parts.

fix input → read → parse → rules → claims → dedupe → enrich → route → write → decide        then audit, then publish
├ driver ┤├───── task: read ─────┤├──────────── task: route ───────────────┤├─ driver ────────────────────────────┤
"""

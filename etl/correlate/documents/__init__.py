"""Natural joins of JSON documents whose fields nobody declared, window by window.

    lines ─ flatten ─► documents: sets of attribute-value pairs                            flatten, dictionary, model
                          │
                 creators: association groups of their share ─► merger: m partitions       partitioning/
                          │                                          │
                 assigner: which partitions a document goes to ◄─────┘                     windows
                          │
                 joiner 0 … m-1: FP-tree join of what arrived, each pair at one joiner     joining/
                          ▼
                 pairs of documents that join: something shared, nothing in conflict       topology: all in one process

Invariants: all joinable pairs of a window are found, each once, whatever the partitions, however often they change.
Nothing here knows Spark, files, a clock or a log.
"""

"""Natural joins of schemaless JSON documents, window by window.

    lines ─ flatten ─► documents: sets of attribute-value pairs                            flatten, dictionary, model
                          │
                 creators: association groups of their share ─► merger: m partitions       partitioning/
                          │                                          │
                 assigner: the partitions of every document ◄────────┘                     windows
                          │
                 joiner 0 … m-1: FP-tree join, each pair at one joiner                     joining/
                          ▼
                 pairs of documents that join: something shared, nothing in conflict       topology: all in one process

Invariants: all joinable pairs of a window are found, each once, for any partitions and any changes of them.
Nothing here uses Spark, files, a clock or a log.
"""

"""Partitioning of documents: association groups (AG), and the baselines set cover (SC) and disjoint sets (DS).

routing      which pairs of a document route it: all, or a key on which joinable documents agree    (ADR 36)
association  algorithm 1, by each creator over its share          set_cover, disjoint_sets  the baselines
merger       groups of all creators to m partitions, by load      assigner  documents to partitions, updates
quality      replication, maximal load, Gini; when to repartition
"""

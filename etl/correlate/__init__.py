"""Stream-stream joins: correlations, computed micro-batch by micro-batch.

    query/       SQL ──► sources with their selections, binary joins with their conditions, output
    model        data types: Tuples (references and thin columns), Pairs, Window; `rows` reads rows by reference
    prepare      rows of a stream ──► Tuples: key lanes, band values
    watermark    late tuples, and expiry of state
    index/       state: a chain of sub-indexes per unit: insert, probe, expire, bytes
    aggregate    GROUP BY in two phases; `distinct` for DISTINCT
    biclique/    any two streams on any condition, without replicas (BiStream)
    adhoc/       hundreds of ad-hoc joins that share scans, indexes and joins (AJoin)
    multiway/    multi-way joins across sites, planned per substream (PMJoin)
    documents/   documents that join without a schema, by FP-tree

Everything here is pure: no Spark, no files, no clock. Rows stay in the stream log; operators exchange row references.
"""

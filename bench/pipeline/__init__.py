"""One whole micro-batch, from landed files to the mart: ours, ours as it was, and the script one would write instead.

    orders on disk ──► one contender after the other, each alone in a process ──► rows, aims ──► pipeline.json, page
                         before   the pipeline at the commit before write-audit-publish, in a work tree of its own
                         plain    one resident Spark session, no guarantees; with and without its checkpoint
                         ours     the pipeline of this tree

    __main__   options, orders, Postgres, the result file          plan      what is measured, within how many minutes
    orders     batches that repeat nothing of each other           drive     the process of one contender
    plain, plain_mart, plain_checkpoint    before, before_tree     ours, through_airflow
    probe      Spark jobs, log entries, bytes of one batch         results   medians, aims
    plots      one SVG                                             page      the section of docs/performance.md

Every contender reads the same files, and the rows it ends with are compared with what the generator put in: who
loses or doubles an order has no time at all.
"""

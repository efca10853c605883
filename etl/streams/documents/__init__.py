"""Correlations of documents inside the micro-batch of all correlations: creators, assigners and joiners as tasks.

    first      the driver makes the first partitions of a sample of what has landed
    read       lines ──► documents, or the reason why a line is none; event times
    assign     in the dispatchers: late documents, partitions of every document, a file of documents per task
    join       in the tasks of units: joiners read those files, and what the window holds; pairs ──► results
    evolve     in the driver: windows that closed, new values for the partitions, new partitions
    state      what the next batch depends on; files of documents and partitions hang under the decision

The kernels are in `etl.correlate.documents`. Documents are written once, by whoever read them; joiners map the files
and take what is theirs, so that only names of files are shuffled (ADR 66).
"""

"""Correlations of documents inside the micro-batch of all correlations: creators, assigners and joiners as tasks.

    first          in the driver: the first partitions, from a sample of landed documents
    read           lines ──► documents with event times, or reasons for refusing them
    assign         in the dispatchers: late documents, partitions of every document, a file of documents per task
    join           in the tasks of units: joiners read those files, and the window's earlier ones; pairs ──► results
    second_round   in the driver: joiners that found more than their parts of a bound may make the rest of it
    evolve         in the driver: closed windows, new values for the partitions, new partitions
    state          the state between batches; files of documents and partitions are named by the decision

The kernels are in `etl.correlate.documents`. Documents are written once, by the task that reads them; joiners map the
files and select their documents, so that only file names are shuffled (ADR 66).
"""

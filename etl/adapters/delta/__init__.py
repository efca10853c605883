"""Delta tables as pipelines write them: tasks write Parquet files, the driver adds them to a table's log.

data_files   Parquet files as tasks write them, with the statistics for the log
table        settings, schema and checks of our tables
log          the tables of a pipeline: created, read and corrected through delta-rs, appended to by our own entries
append       adds a batch's files to a table exactly once, by a log entry written here
torn         repairs the end of a log after a power cut
"""

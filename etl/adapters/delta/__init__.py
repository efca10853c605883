"""Delta tables as pipelines write them: tasks write Parquet files, the driver adds them to a table's log.

data_files   Parquet files as tasks write them, with the statistics that the log carries
table        what a table of ours is
log          the tables of a pipeline: made, looked at, corrected through delta-rs, appended to by entries of ours
append       a batch's files become part of a table, once, by a log entry that is written here
torn         what a power cut has torn at the end of a log
"""

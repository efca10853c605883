"""Delta tables as pipelines write them: tasks write Parquet files, the driver adds them to a table's log.

data_files   Parquet files as tasks write them, with the statistics that the log carries
log          a commit adds a batch's files to a table, once, through delta-rs
append       the same with log entries written here, for hundreds of small tables
torn         what a power cut has torn at the end of a log
"""

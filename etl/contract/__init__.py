"""What a pipeline and a stream are, read from the files that declare them."""

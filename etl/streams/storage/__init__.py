"""Storage of tuples: immutable, sealed files on any file system, and the stream log, which consists of them."""

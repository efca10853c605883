"""Where tuples are kept: immutable, sealed files on any file system, and the stream log that is made of them."""

"""A first file from what exists: sampled events and the tables that shall enrich them."""

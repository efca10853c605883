"""Plans: the site of each join, for all values or per partition of them."""

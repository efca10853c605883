"""Plans: what is joined where, for all values or per partition of them."""

"""Commands by which people decide: refused lines, held batches, days that are read again."""

"""Commands for decisions: refused lines, held batches, reprocessing."""

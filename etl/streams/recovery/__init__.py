"""After a restore: notes of decisions beside the data, and settling ledger and warehouse with each other."""

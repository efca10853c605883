"""After a restore: notes of decisions beside the data, and reconciling ledger and warehouse."""

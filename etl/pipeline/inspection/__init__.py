"""What people ask: where events are, how a batch went and compares with others, why a pipeline does not move."""

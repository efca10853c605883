"""Triggers for arriving events: a run starts only when there is input for it."""

"""A plan carried out over folders: steps whose outputs are immutable files, so that a repeat changes nothing."""

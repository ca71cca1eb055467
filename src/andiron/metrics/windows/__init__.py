"""Windows of a tally that several processes share, or that a file holds."""

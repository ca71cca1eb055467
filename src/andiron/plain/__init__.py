"""Values and text without torch: cadences, options, formatting."""

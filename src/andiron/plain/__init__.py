"""Values and text without torch: when something is due, ranges, how values are written."""

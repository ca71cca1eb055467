"""Files: replaced whole, appended to, checked."""

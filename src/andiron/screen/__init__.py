"""A run on a whole terminal, shown by the run itself or by another process: no torch in here."""

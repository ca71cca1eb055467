"""The files of one checkpoint."""

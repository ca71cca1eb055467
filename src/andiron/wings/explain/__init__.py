"""Explains mistakes in a command line or a configuration: the nearest name, and the remedy."""

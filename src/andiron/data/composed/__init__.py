"""Data sets made of other data sets."""

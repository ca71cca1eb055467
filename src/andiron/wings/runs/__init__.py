"""Reads, lists, compares, checks, plans and removes runs; commands and what they share."""

"""Finds, reads, filters and compares runs; torch is not imported."""

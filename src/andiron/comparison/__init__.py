"""Finds, reads, filters, compares and removes runs; torch is not imported."""

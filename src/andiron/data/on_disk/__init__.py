"""Readers of files on disk."""

"""Assigns parameters to groups."""

"""Metrics made of a user's function."""

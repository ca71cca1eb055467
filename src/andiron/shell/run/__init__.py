"""The record of a run: its folder, and where it comes from."""

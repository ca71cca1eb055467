"""The record of a run: its folder, where it comes from, who owns which parameter."""

"""Shared by all commands: signals, streams, exit codes and output files."""

"""Asks a run: executes any stretch of it again, bit for bit, with instruments on."""

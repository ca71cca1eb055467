"""Optimizers and averages that torch lacks, and their states."""

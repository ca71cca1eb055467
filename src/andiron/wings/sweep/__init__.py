"""Sweeps: jobs in separate processes, and a ledger of their outcomes; torch is not imported."""

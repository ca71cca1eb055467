"""Sweeps: jobs in processes of their own, and the ledger of how each ended; torch is not imported.
"""

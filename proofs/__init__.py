"""Proofs that a resumed run is exact: kill test, stop points, comparison bit for bit."""

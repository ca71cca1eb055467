"""Trains a configuration with and without interruptions, and compares every bit.

The wheel carries this package as `andiron.exact_resume`: its modules import each other by relative
names, which hold there and in a checkout.
"""

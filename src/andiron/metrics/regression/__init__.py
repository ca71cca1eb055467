"""Metrics of regression."""

"""Metrics of classifiers."""

"""Schedules of several phases, and one that observes validations."""

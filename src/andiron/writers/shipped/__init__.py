"""The writers of logged values, one a module."""

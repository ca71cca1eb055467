"""Data sets larger than memory: rows by place, in an order that is computed."""

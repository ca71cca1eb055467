"""Data sets larger than memory, rows by place in a computed order; mixtures; shards of tokens."""

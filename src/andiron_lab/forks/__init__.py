"""A new run that begins with the whole state of another, and changes options: `fork_from`."""

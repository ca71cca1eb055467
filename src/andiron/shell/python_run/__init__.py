"""The run of a learner from Python in its folder: its host, its record, and changes of it."""

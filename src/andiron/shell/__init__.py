"""Commands, configuration, record and resume: a configuration becomes a recorded run."""

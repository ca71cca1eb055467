"""From a configuration to a trained run, in one process or several."""

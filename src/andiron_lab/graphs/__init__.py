"""Steps of training as graphs of a device."""

"""Support of the torchmetrics adapter: states, arguments and values."""

"""What the adapter of torchmetrics' metrics knows: their states, their arguments, their values."""

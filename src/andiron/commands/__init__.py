"""What the commands do; the scripts only call them."""

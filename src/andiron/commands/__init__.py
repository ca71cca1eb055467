"""The commands; the scripts only call them."""

"""Views of a model before and after its training, and the range test of rates."""

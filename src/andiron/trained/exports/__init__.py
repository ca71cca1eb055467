"""A trained model for use elsewhere: as a program or as weights, checked, with a model card."""

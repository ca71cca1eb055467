"""Kinds of data: what a record says of new inputs, without the samples that trained."""

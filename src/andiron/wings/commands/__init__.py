"""Shared by the commands beside training: declaration, arguments, and answers to programs."""

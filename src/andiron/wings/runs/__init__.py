"""Commands that list, compare, remove and repeat runs."""

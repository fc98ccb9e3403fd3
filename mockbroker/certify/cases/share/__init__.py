"""Cases of the family `share`."""

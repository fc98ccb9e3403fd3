"""Cases of the family `producing`."""

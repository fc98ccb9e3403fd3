"""Cases of the family `fetching`."""

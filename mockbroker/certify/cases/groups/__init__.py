"""Cases of the family `groups`."""

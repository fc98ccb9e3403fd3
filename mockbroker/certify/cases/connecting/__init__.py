"""Cases of the family `connecting`."""

"""State of the share coordinator."""

"""Classic and consumer groups, and committed offsets."""

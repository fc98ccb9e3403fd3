"""What the invariants read of the logs of the simulated cluster."""

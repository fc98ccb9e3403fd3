"""Simulator: the whole cluster on virtual time with seeded clients and faults, and invariants checked at every step."""

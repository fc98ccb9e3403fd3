"""The whole cluster on virtual time: seeded clients and faults, and invariants that are checked at every step."""

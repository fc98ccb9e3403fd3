"""The simulator with a data directory: a disk with faults, ends of the process, and what was promised to clients."""

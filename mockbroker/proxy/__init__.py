"""`mockbroker proxy`: between clients and a real cluster, with the faults, history and capture of the mock broker."""

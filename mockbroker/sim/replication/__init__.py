"""The simulation of replicas that fetch."""

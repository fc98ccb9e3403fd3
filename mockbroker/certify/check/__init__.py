"""`mockbroker certify --check-driver`: the methods of a driver's capabilities are tried against clusters."""

"""The published results of `mockbroker certify`: the page, the badges and the picture."""

"""Handlers, one module for each API family; ROUTES is the whole surface of the broker."""

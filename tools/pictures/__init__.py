"""Pictures of terminal output for the documentation: output of `kwire` for the captures in `tests/captures`."""

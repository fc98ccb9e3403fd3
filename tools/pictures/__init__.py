"""Pictures of the terminal for the pages: what `kwire` prints of the captures in `tests/captures`."""

"""The coordinators' topics: their state as records, and loading them back."""

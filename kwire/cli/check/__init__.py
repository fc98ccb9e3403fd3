"""The command `kwire check`: golden vectors and golden record batches."""

"""What faults do to responses: their rows, their fields, and the bytes that are sent."""

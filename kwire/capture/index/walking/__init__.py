"""Where the packets of a file lie, and what their heads say: span by span, without any payload."""

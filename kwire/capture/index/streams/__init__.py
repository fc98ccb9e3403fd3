"""From packets to the pieces of streams, by position: what opens and ends connections, order, gaps, repetitions."""

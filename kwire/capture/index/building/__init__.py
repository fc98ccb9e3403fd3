"""The stateful part of phase 1: from heads to flows, streams, frames and exchanges, as columns."""

"""Read flows with lost or cut packets by columns: streams are reassembled without payload, frames found by position."""

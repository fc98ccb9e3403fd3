"""Handlers of share groups: heartbeat, fetch, acknowledgement, offsets."""

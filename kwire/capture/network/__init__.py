"""Packet dissection down to TCP segments: link layers, tunnels, IP and its fragments."""

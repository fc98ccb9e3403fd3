"""Events of a cluster for readers in another thread.

`event_source` records them in the cluster's thread, `state_scan` finds what has changed, `event_ring` keeps the newest
ones within limits, and `event_hub` has the readers, which run in the event loop of the control.
"""

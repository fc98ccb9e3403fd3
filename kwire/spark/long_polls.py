"""The APIs whose responses may wait on purpose, so that their latency is no measure of the broker's speed."""

# The broker waits for data, or for the other members of a group.
LONG_POLLS = ("Fetch", "ShareFetch", "JoinGroup", "SyncGroup")

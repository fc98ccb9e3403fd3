"""Client quotas as limits of rates: windows, token buckets, which quota a client has, and how long it is throttled."""

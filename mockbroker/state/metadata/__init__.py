"""Cluster metadata: topics, leaders, configurations, feature levels, quotas."""

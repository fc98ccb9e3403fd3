"""Handlers of cluster administration: features, quorum, log directories, telemetry, versions."""

"""Share-partition state in control records of the topic's own log, as the second revision of KIP-932 drafted it."""

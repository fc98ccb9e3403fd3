"""Services of the cluster for the components of a node: the channel between nodes, and what an edition provides."""

"""Persisters: storage of share-partition state by the share coordinator, or nowhere."""

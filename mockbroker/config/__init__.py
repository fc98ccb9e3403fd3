"""The configuration of a broker: keys, property files, feature levels."""

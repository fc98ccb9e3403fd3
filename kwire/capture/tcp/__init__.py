"""TCP: stream reassembly, packet buffers and the analysis of connections."""

"""Writing captures: pcapng files, and excerpts with the packets of selected exchanges."""

"""Writing captures: pcapng files, and and excerpts with the packets of selected exchanges."""

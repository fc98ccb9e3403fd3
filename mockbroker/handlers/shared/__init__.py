"""Code that handlers of several API families share."""

"""Write the pages, or parts of pages, that come from the code, so that they cannot drift from it."""

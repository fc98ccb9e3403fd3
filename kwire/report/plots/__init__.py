"""SVG plots of the report."""

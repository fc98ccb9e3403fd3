"""Reports of a run: results.json, JUnit XML, and pages."""

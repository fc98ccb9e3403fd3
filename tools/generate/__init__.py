"""Generates code from schemas and tables."""

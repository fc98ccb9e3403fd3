"""Generates the pages, and the tables of pages, that follow from the code and must agree with it."""

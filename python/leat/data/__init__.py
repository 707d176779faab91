"""Samples at rest: data sets and their views, schemas, writers."""

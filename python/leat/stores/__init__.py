"""Columns beside a data set: files of rows that change, found by sample id."""

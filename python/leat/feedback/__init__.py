"""Feedback by sample: what models report of samples, and policies that select samples by it."""

from . import policies as policies

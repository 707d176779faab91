"""Mixtures that follow losses: algorithms that decide weights while a model trains, and what ties them to a loader."""

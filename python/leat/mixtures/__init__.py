"""Mixtures that follow losses: algorithms that decide weights while a model trains, and their ties to a loader."""

from . import algorithm as algorithm

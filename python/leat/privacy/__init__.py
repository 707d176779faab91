"""Counts that may be published while they grow: differential privacy under continual observation (docs/privacy.md)."""

from .budget import Budget, BudgetSpentError
from .counter import TreeCounter
from .ranking import RunningArgmax

__all__ = ["Budget", "BudgetSpentError", "RunningArgmax", "TreeCounter"]

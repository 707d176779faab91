"""Ports of this host: one loader for many processes (docs/ports.md)."""

from .known import ls, stat, stop
from .order import dependent_order

__all__ = ["dependent_order", "ls", "stat", "stop"]

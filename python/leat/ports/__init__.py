"""Ports of this host: one loader for many processes (docs/ports.md)."""

from ..sharing.known import ls, stat, stop
from .order import dependent_order
from .serve import serve

__all__ = ["dependent_order", "ls", "serve", "stat", "stop"]

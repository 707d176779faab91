"""Ports of this host: one loader for many processes (docs/ports.md)."""

from .known import ls, stat, stop

__all__ = ["ls", "stat", "stop"]

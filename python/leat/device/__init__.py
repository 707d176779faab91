"""The GPU's side: rows that a card gathers itself from the host's memory (docs/device.md)."""

from .table import Rows, rows

__all__ = ["Rows", "rows"]

"""The form that attached readers make of the description that a port gives of its batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import check
from ..data.schema import held
from ..errors import StateError
from ..loading.batch import Form
from ..program import Stack


def form_of(said: Mapping[str, Any], framework: str | None) -> Form:
    """The form of the batches that a port gives, from its description of itself and of the outputs.

    Raises: StateError: it is no description of a port.
    """
    try:
        about = said.get("about", {})
        form = Form(check.framework(framework or about.get("framework", "auto")))
        form.stacks = {str(name): Stack(*stack) for name, stack in said.get("stacks", {}).items()}
        form.order = [str(name) for name in about.get("order", [])]
        form.sparse = {str(name): int(n) for name, n in about.get("sparse", {}).items()}
        form.stored = {str(name): (held(item), int(n)) for name, (item, n) in said.get("sparse", {}).items()}
        length = about.get("length")
        form.length = None if length is None else int(length)
        form.multiple = int(about.get("multiple", 1))
        form.looks = True
    except (AttributeError, TypeError, ValueError) as e:
        if framework is not None and "framework" in str(e):
            raise
        raise StateError(f"the port says of its batches what this version does not understand ({e!s:.120})") from None
    return form

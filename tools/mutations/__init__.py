"""Faults that the tests have to find, one module per part of the code. tools/mutate.py runs them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """A fault: in `file` the `old` text, which stands there once, becomes the `new` one.

    Args:
        name: what is wrong with it, as a sentence.
        file: the path from the root of the repository.
        tests: those that should find it; one that does is enough. `c:engine/loader` is a test in C by Meson's name,
            `py:test_loader.py::test_x` one of tests/python, `property:workers` an area of the property test of the
            DataLoader.
        tier: `gate`, or the shard that has those tests.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    tier: str = "gate"

    @property
    def layer(self) -> str:
        """The folder of src/, `cli`, `extension`, or the part of the package."""
        parts = self.file.split("/")
        if parts[0] == "src":
            return parts[1]
        if parts[0] == "python":
            return "extension" if parts[1] == "src" else "leat." + (parts[2] if len(parts) > 3 else "face")
        return parts[0]

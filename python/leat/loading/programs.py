"""The program of a loader: what the library is told of `outputs`, and what runs their functions in Python."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _leat
from ..data.dataset import Dataset
from ..data.packing import PackedRows
from ..ops import Map
from ..program import (
    NO_OUTPUTS,
    Outputs,
    compiled_program,
    described_program,
    entries,
    has_functions,
    per_batch,
    stacked,
    warn_of_loose_targets,
)
from .batch import Form

if TYPE_CHECKING:
    from ..functions.mapping import Compiler
    from ..workers.calls import Calls


class Program(NamedTuple):
    """`options`: those of ``_leat.Loader.open``; `compiler`: of functions in Python."""

    options: dict[str, Any]
    compiler: Compiler | None = None

    def calls(self, core: _leat.Loader, on_error: str, weight: float) -> Calls | None:
        """The runner of the functions of the loader that was opened with these options."""
        if self.compiler is None:
            return None
        from ..workers.calls import Calls  # here, as the compiler: worker processes are for functions alone

        workers = json.loads(core.stats())["threads"]
        return Calls(self.options["executor"], core, self.compiler.program(on_error), workers, weight)


def program_of(outputs: Outputs | None, dataset: Any, form: Form, seed: int, in_order: bool) -> Program:
    """Compiles the outputs, and tells `form` what follows from them. `form.hidden`: nothing is delivered here.

    Raises:
        ValueError: a function does not go with what is beside it, or with ``in_order=False``.
    """
    if form.hidden:
        return Program({"program": NO_OUTPUTS})
    if outputs is None:
        return Program({})
    compiler = _compiler(outputs, dataset, form.framework, seed) if has_functions(outputs) else None
    if compiler is not None and compiler.whole and not in_order:
        raise ValueError("in_order=False does not go with leat.ops.MapBatch, which takes batches as planned")
    warn_of_loose_targets(outputs, dataset.schema, 5)
    form.stacks = stacked(outputs, dataset.schema)
    if compiler is None:
        program, functions = compiled_program(outputs)
        return Program({"program": program, "functions": functions})
    form.order = compiler.order
    program, functions = compiler.compiled()
    memfd = 1
    return Program(
        {"program": program, "functions": functions, "executor": _leat.Executor(), "region": memfd}, compiler
    )


def _compiler(outputs: Outputs, dataset: Any, framework: str, seed: int) -> Compiler:
    from ..functions.mapping import Compiler

    for entry in entries(outputs):
        if any(per_batch(op) for op in entry.chain) and any(isinstance(op, Map) for op in entry.chain):
            raise ValueError(
                f"output {', '.join(entry.outputs)}: leat.PerBatch does not go with leat.ops.Map and MapBatch in one "
                "chain, because the shape of what a function takes is settled before the first batch"
            )
    return Compiler(outputs, dataset.schema, framework, partial(_first_stored, dataset), _leat.row_key(seed, 0, 0))


def _first_stored(dataset: Any, name: str) -> tuple[Any, int]:
    """The stored value of a field in the first sample, and that sample's id."""
    if not len(dataset):
        raise ValueError(
            "the data set is empty: a function's result is known only where returns=leat.field(dtype, shape) "
            "declares it"
        )
    if not isinstance(dataset, Dataset):
        dataset = next(source for source in dataset.datasets if len(source))
    ids = dataset.ids if isinstance(dataset, PackedRows) else dataset[:1].ids  # packed rows have no views
    return dataset.stored(0, name), int(ids[0])


def described(outputs: Outputs | None) -> str:
    """The program of these outputs, as ranks compare it."""
    if outputs is None:
        return ""
    return described_program(outputs) if has_functions(outputs) else compiled_program(outputs)[0]

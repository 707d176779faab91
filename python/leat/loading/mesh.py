"""The place of this process among those of a training with several kinds of parallelism, and so its share of the data.

data parallel      dp   each rank has rows of its own: rank and world size of the Loader
tensor parallel    tp   peers see identical batches
pipeline parallel  pp   peers see identical batches; only the first and the last stage need them
context parallel   cp   peers see slices of identical rows
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .. import check, ranks

KINDS = ("dp", "tp", "pp", "cp")
#: Names that frameworks give to dimensions. Several of one kind, as of hybrid sharding, count as one.
NAMES = {
    "dp": ("dp", "data", "ddp", "fsdp", "data_parallel", "dp_replicate", "dp_shard", "replicate", "shard"),
    "tp": ("tp", "model", "tensor", "tensor_parallel", "model_parallel"),
    "pp": ("pp", "pipe", "pipeline", "pipeline_parallel"),
    "cp": ("cp", "context", "context_parallel"),
}
KIND_OF = {name: kind for kind, names in NAMES.items() for name in names}


class Place(NamedTuple):
    """A rank among so many."""

    rank: int = 0
    size: int = 1


@dataclass
class Mesh:
    """The place of this process in each dimension."""

    dp: Place = Place()
    tp: Place = Place()
    pp: Place = Place()
    cp: Place = Place()
    distributed: bool = False  #: whether the ranks of torch.distributed are those of the mesh, so that they can compare
    tp_group: Any = field(default=None, repr=False)

    @property
    def reads(self) -> bool:
        """Whether this process needs data: not if it is in the middle of a pipeline."""
        return self.pp.rank in (0, self.pp.size - 1)

    @property
    def sizes(self) -> dict[str, int]:
        return {kind: getattr(self, kind).size for kind in KINDS}

    @property
    def processes(self) -> int:
        return self.dp.size * self.tp.size * self.pp.size * self.cp.size


def mesh_of(given: Any) -> Mesh:
    """Reads a mesh.

    Raises:
        TypeError: it is of no kind that is known.
        ValueError: a dimension whose name says no kind; a rank outside of its size.
    """
    if isinstance(given, Mesh):
        return given
    if isinstance(given, Mapping):
        return _of_dict(given)
    if hasattr(given, "mesh_dim_names") and hasattr(given, "get_local_rank"):
        return _of_device_mesh(given)
    if callable(getattr(given, "get_axis_names", None)) and callable(getattr(given, "get_coord", None)):
        return _of_topology(given)
    if callable(getattr(given, "get_data_parallel_rank", None)):
        return _of_grid(given)
    raise TypeError(
        'mesh is {"dp": (rank, size), "tp": ..., "pp": ..., "cp": ...}, a torch DeviceMesh, or a topology or grid of '
        f"DeepSpeed, not {type(given).__name__}"
    )


def place_of(mesh: Any, rank: int | None, world_size: int | None) -> tuple[Mesh | None, int, int, bool]:
    """The mesh, the data-parallel rank and the world size that a Loader's arguments state, and whether these are those
    of torch.distributed."""
    if mesh is None:
        return None, *ranks.find(rank, world_size)
    if rank is not None or world_size is not None:
        raise ValueError("mesh says the rank and the world size: leave these out")
    found = mesh_of(mesh)
    return found, *found.dp, found.distributed


def _place(kind: str, rank: Any, size: Any) -> Place:
    place = Place(check.integer(f"the rank in {kind}", rank), check.integer(f"the size of {kind}", size, 1, 1 << 31))
    if place.rank >= place.size:
        raise ValueError(f"rank {place.rank} of {place.size} in {kind}: ranks are numbered from 0")
    return place


def _joined(places: list[tuple[str, Place]]) -> dict[str, Any]:
    """Dimensions of one kind as one, the first of them counting most."""
    found: dict[str, Any] = {}
    for name, (rank, size) in places:
        kind = KIND_OF.get(name)
        if kind is None:
            if size == 1:
                continue
            raise ValueError(
                f"mesh: a dimension of {size} ranks is called {name!r}, which says no kind of parallelism: dimensions "
                f"are called {', '.join(KINDS)} or as in docs/frameworks.md, or give a dict of these"
            )
        before = found.get(kind, Place())
        found[kind] = Place(before.rank * size + rank, before.size * size)
    return found


def _of_dict(given: Mapping[Any, Any]) -> Mesh:
    for kind, pair in given.items():
        if kind not in KINDS:
            raise ValueError(f"mesh has dimensions {', '.join(KINDS)}, not {kind!r:.60}")
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"mesh: {kind!r} is (rank, size), not {pair!r:.60}")
    places: dict[str, Any] = {kind: _place(kind, *pair) for kind, pair in given.items()}
    return Mesh(**places)


def _of_device_mesh(given: Any) -> Mesh:
    names = given.mesh_dim_names
    if not names:
        if given.ndim != 1:
            raise ValueError("mesh: name the dimensions of the DeviceMesh: mesh_dim_names=('dp', 'tp')")
        return Mesh(dp=_place("dp", given.get_local_rank(), given.size()), distributed=True)
    ranks_of = [(name, _place(name, given.get_local_rank(name), given.size(i))) for i, name in enumerate(names)]
    tensor = [name for name in names if KIND_OF.get(name) == "tp"]
    return Mesh(
        **_joined(ranks_of), distributed=True, tp_group=given.get_group(tensor[0]) if len(tensor) == 1 else None
    )


def _of_topology(given: Any) -> Mesh:
    """DeepSpeed's ProcessTopology: axes and a rank's coordinates on them."""
    dist = ranks.distributed()
    rank = dist.get_rank() if dist is not None else int(os.environ.get("RANK") or 0)
    coordinates = given.get_coord(rank)
    axes = [(name, _place(name, getattr(coordinates, name), given.get_dim(name))) for name in given.get_axis_names()]
    return Mesh(**_joined(axes), distributed=dist is not None)


def _of_grid(given: Any) -> Mesh:
    """DeepSpeed's PipelineParallelGrid and objects with its methods, such as the parallel state of Megatron."""

    def place(kind: str, *names: str) -> Place:
        for name in names:
            rank = getattr(given, f"get_{name}_rank", None)
            size = getattr(given, f"get_{name}_world_size", None)
            if callable(rank) and callable(size):
                return _place(kind, rank(), size())
        return Place()

    group = next(
        (
            getattr(given, name)
            for name in ("get_tensor_model_parallel_group", "get_slice_parallel_group", "get_model_parallel_group")
            if callable(getattr(given, name, None))
        ),
        None,
    )
    tp = place("tp", "tensor_model_parallel", "slice_parallel", "model_parallel")
    return Mesh(
        dp=place("dp", "data_parallel"),
        tp=tp,
        pp=place("pp", "pipeline_model_parallel", "pipe_parallel"),
        cp=place("cp", "context_parallel"),
        distributed=ranks.distributed() is not None,
        tp_group=group() if group is not None and tp.size > 1 else None,
    )

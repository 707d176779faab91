"""mesh=: which rows, and which part of them, a process of a training with several kinds of parallelism is given."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import leat
from leat.loading.context import Slices
from leat.loading.mesh import Place, mesh_of

N, L = 48, 16


def rows() -> leat.Dataset:
    x = np.arange(N * L).reshape(N, L)
    return leat.from_arrays(tokens=x, labels=x + 1, doc=np.arange(N))


def opened(mesh: Any, **more: Any) -> leat.Loader:
    return leat.Loader(rows(), global_batch_size=8, shuffle=True, seed=1, framework="numpy", mesh=mesh, **more)


def tokens(mesh: Any, **more: Any) -> np.ndarray:
    return np.stack([batch["tokens"] for batch in opened(mesh, **more)])


def test_data_parallel_ranks_have_rows_of_their_own() -> None:
    plain = [
        np.stack([b["tokens"] for b in leat.Loader(
            rows(), global_batch_size=8, shuffle=True, seed=1, framework="numpy", rank=r, world_size=2)])
        for r in range(2)
    ]  # fmt: skip
    for r in range(2):
        assert (tokens({"dp": (r, 2)}) == plain[r]).all()


def test_tensor_and_pipeline_parallel_peers_see_identical_batches() -> None:
    one = tokens({"dp": (1, 2), "tp": (0, 4), "pp": (0, 3)})
    assert (tokens({"dp": (1, 2), "tp": (3, 4), "pp": (0, 3)}) == one).all()
    assert (tokens({"dp": (1, 2), "tp": (2, 4), "pp": (2, 3)}) == one).all()


def test_between_the_ends_of_a_pipeline_batches_have_no_outputs_and_the_same_ids_and_steps() -> None:
    ends, middle = opened({"pp": (0, 3)}), opened({"pp": (1, 3)})
    assert len(ends) == len(middle)
    for a, b in zip(ends, middle):
        assert list(b) == [] and b.ids.tolist() == a.ids.tolist() and (a.epoch, a.step) == (b.epoch, b.step)


def test_between_the_ends_of_a_pipeline_nothing_is_read(tmp_path: Path) -> None:
    from PIL import Image

    for i in range(8):
        Image.new("RGB", (8, 8), (i, 0, 0)).save(tmp_path / f"{i}.png")
    ds = leat.open(tmp_path)
    loaders = [leat.Loader(ds, 2, framework="numpy", mesh={"pp": (stage, 3)}) for stage in range(3)]
    planned = [loaders[0].plan(0, step).tolist() for step in range(4)]
    for i in range(8):
        (tmp_path / f"{i}.png").unlink()
    for _ in range(2):
        assert [batch.ids.tolist() for batch in loaders[1]] == planned
    with pytest.raises(leat.Error):
        list(loaders[0])


@pytest.mark.parametrize("on_error", ["raise", "skip", "substitute"])
def test_between_the_ends_of_a_pipeline_broken_samples_are_not_known(tmp_path: Path, on_error: Any) -> None:
    from PIL import Image

    for i in range(8):
        Image.new("RGB", (8, 8), (i, 0, 0)).save(tmp_path / f"{i}.png")
    (tmp_path / "3.png").write_bytes((tmp_path / "3.png").read_bytes()[:60])
    middle = leat.Loader(leat.open(tmp_path), 4, mesh={"pp": (1, 3)}, on_error=on_error)
    assert [batch.ids.tolist() for batch in middle] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert middle.batch_at(0, 1).ids.tolist() == [4, 5, 6, 7] and list(middle.batch_at(0, 1)) == []
    assert [batch.ids.tolist() for batch in middle.consumer(3)] == [[0, 1, 2], [3, 4, 5], [6, 7]]


@pytest.mark.parametrize("how", ["cut", "best_fit", "pad"])
def test_between_the_ends_of_a_pipeline_packed_rows_are_those_of_the_ends(tmp_path: Path, how: str) -> None:
    with leat.Writer(tmp_path / "a.leat", {"tokens": leat.field("uint16", (None,))}) as writer:
        for n in (5, 16, 3, 9, 1, 12, 7, 8):
            writer.write({"tokens": np.arange(n, dtype=np.uint16)})
    packed = leat.pack_rows(leat.open(tmp_path / "a.leat"), "tokens", 16, how=how)
    mix = leat.Mix({"a": (packed, 0.5), "b": (packed, 0.5)}, exhausted="repeat")
    for source in (packed, mix):
        first, middle = (leat.Loader(source, 2, framework="numpy", mesh={"pp": (r, 3)}) for r in (0, 1))
        assert [b.ids.tolist() for b in first] == [b.ids.tolist() for b in middle]
        assert [b.domains.tolist() for b in first] == [b.domains.tolist() for b in middle]


def test_processes_with_the_same_rows_cannot_have_these_out_of_order() -> None:
    with pytest.raises(ValueError, match="an order of its own"):
        opened({"dp": (0, 2), "tp": (0, 2)}, in_order=False)
    opened({"dp": (0, 2)}, in_order=False)


def test_a_state_of_one_stage_fits_the_others() -> None:
    first, middle = opened({"pp": (0, 3)}), opened({"pp": (1, 3)})
    batches = iter(first)
    next(batches)
    middle.load_state_dict(first.state_dict())
    assert next(iter(middle)).ids.tolist() == next(batches).ids.tolist()


def test_a_stage_that_has_read_nothing_has_a_state_for_others_like_it_only() -> None:
    middle = opened({"pp": (1, 4)})
    for loader in (middle, opened({"pp": (2, 4)})):
        iter(loader)  # a loader that repeats does so, and hands out no batch
        state = json.loads(json.dumps(loader.state_dict()))
        middle.load_state_dict(state)
        for reads in (opened({"pp": (3, 4)}), opened({"dp": (1, 2), "pp": (0, 1)})):
            with pytest.raises(leat.StateError, match="which reads no batches and knows no position"):
                reads.load_state_dict(state)
    next(iter(middle))
    opened({"pp": (0, 4)}).load_state_dict(middle.state_dict())
    middle.load_state_dict(opened({"pp": (0, 4)}).state_dict())
    assert middle.state_dict()["unread"] == [1, 4]  # it will not know how far the others have come from here


def test_contiguous_slices_of_context_parallel_ranks_make_up_the_rows() -> None:
    parts = [tokens({"cp": (r, 4)}, cp="contiguous") for r in range(4)]
    assert (np.concatenate(parts, axis=2) == tokens({})).all()


def test_zigzag_gives_rank_r_of_n_the_chunks_r_and_2n_minus_1_minus_r() -> None:
    whole = tokens({})
    for r in range(2):
        chunks = [whole[..., i * 4 : (i + 1) * 4] for i in (r, 3 - r)]
        assert (tokens({"cp": (r, 2)}) == np.concatenate(chunks, axis=2)).all()


def test_outputs_without_a_sequence_stay_whole_and_named_ones_are_sliced() -> None:
    batch = next(iter(opened({"cp": (0, 2)})))
    assert batch["tokens"].shape == batch["labels"].shape == (8, 8) and batch["doc"].shape == (8,)
    batch = next(iter(opened({"cp": (0, 2)}, cp_outputs=["labels"])))
    assert batch["tokens"].shape == (8, 16) and batch["labels"].shape == (8, 8)


def test_rows_that_ranks_cannot_share_are_an_error() -> None:
    with pytest.raises(ValueError, match="sequences of 16, which 3 ranks .* multiples of 6"):
        _ = next(iter(opened({"cp": (0, 3)})))["tokens"]


def test_outputs_to_slice_have_to_be_there() -> None:
    with pytest.raises(ValueError, match="no output 'token'"):
        next(iter(opened({"cp": (0, 2)}, cp_outputs=["token"])))
    with pytest.raises(ValueError, match="no output is called tokens"):
        next(iter(opened({"cp": (0, 2)}, outputs={"doc": []})))


def test_ragged_rows_are_shared_sequence_by_sequence() -> None:
    lengths = [4, 8, 12, 4]
    borders = np.cumsum([0, *lengths])
    found = [Slices(Place(r, 2), "zigzag", None).index("tokens", borders) for r in range(2)]
    assert sorted(np.concatenate([index for index, _ in found]).tolist()) == list(range(28))
    assert found[0][0][:2].tolist() == [0, 3] and found[0][1].tolist() == [0, 2, 6, 12, 14]
    assert found[0][1].tolist() == found[1][1].tolist()


@pytest.mark.parametrize(
    ("mesh", "error", "says"),
    [
        ({"xp": (0, 2)}, ValueError, "dp, tp, pp, cp, not 'xp'"),
        ({"dp": (2, 2)}, ValueError, "rank 2 of 2 in dp"),
        ({"dp": 3}, TypeError, "'dp' is"),
        ({"dp": (0, 0)}, ValueError, "size of dp"),
        (3, TypeError, "DeviceMesh"),
    ],
)
def test_what_is_no_mesh_is_refused(mesh: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        opened(mesh)


def test_a_mesh_takes_the_place_of_rank_and_world_size() -> None:
    with pytest.raises(ValueError, match="mesh says the rank"):
        opened({"dp": (0, 2)}, rank=0, world_size=2)


def test_one_reader_for_its_peers_needs_a_group() -> None:
    with pytest.raises(ValueError, match="tp_read='first'"):
        opened({"tp": (0, 2)}, tp_read="first")


class Topology:
    """The methods of DeepSpeed's ProcessTopology, for axes pipe, data, model in this order."""

    sizes = {"pipe": 2, "data": 3, "model": 2}

    def get_axis_names(self) -> list[str]:
        return list(self.sizes)

    def get_dim(self, axis: str) -> int:
        return self.sizes[axis]

    def get_coord(self, rank: int) -> Any:
        return SimpleNamespace(pipe=rank // 6, data=rank // 2 % 3, model=rank % 2)


def test_deepspeeds_topology_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "9")
    mesh = mesh_of(Topology())
    assert (mesh.dp, mesh.tp, mesh.pp, mesh.cp) == ((1, 3), (1, 2), (1, 2), (0, 1))


def test_deepspeeds_grid_and_megatrons_state_are_read() -> None:
    grid = SimpleNamespace(
        get_data_parallel_rank=lambda: 2, get_data_parallel_world_size=lambda: 4,
        get_pipe_parallel_rank=lambda: 1, get_pipe_parallel_world_size=lambda: 3,
        get_model_parallel_rank=lambda: 0, get_model_parallel_world_size=lambda: 1,
    )  # fmt: skip
    mesh = mesh_of(grid)
    assert (mesh.dp, mesh.tp, mesh.pp) == ((2, 4), (0, 1), (1, 3))
    assert not mesh.reads


def test_dimensions_of_hybrid_sharding_count_as_one() -> None:
    places = {"dp_replicate": (1, 2), "dp_shard": (2, 4), "tp": (0, 2)}
    mesh = mesh_of(
        SimpleNamespace(
            mesh_dim_names=tuple(places),
            get_local_rank=lambda name: places[name][0],
            size=lambda i: list(places.values())[i][1],
            get_group=lambda name: name,
        )
    )
    assert mesh.dp == (6, 8) and mesh.tp == (0, 2) and mesh.tp_group == "tp"


def test_a_dimension_of_an_unknown_name_is_an_error() -> None:
    given = SimpleNamespace(
        mesh_dim_names=("ep",), get_local_rank=lambda name: 0, size=lambda i: 2, get_group=lambda name: None
    )
    with pytest.raises(ValueError, match="2 ranks is called 'ep'"):
        mesh_of(given)


def test_a_mesh_that_has_nothing_to_slice_says_what_to_do() -> None:
    said = r"2 ranks of context parallelism.*cp_outputs=\[\.\.\.\].*dp of the mesh"
    photos = leat.from_arrays(image=np.zeros((16, 3, 8, 8), np.uint8), label=np.zeros(16, np.int64))
    with pytest.raises(ValueError, match=said + "|among image, label"):
        next(iter(leat.Loader(photos, 4, mesh={"cp": (0, 2)}, framework="numpy")))
    with pytest.raises(TypeError, match=r"output 'doc' is \(8,\) and has no sequence.*" + said):
        _ = next(iter(opened({"cp": (0, 2)}, cp_outputs=["doc"])))["doc"]
    with pytest.raises(ValueError, match="cp_outputs is empty: .*dp of the mesh"):
        opened({"cp": (0, 2)}, cp_outputs=[])


def test_what_operators_make_beside_tokens_is_sliced_as_these_are() -> None:
    ids = leat.from_arrays(tokens=np.arange(64).reshape(4, 16) % 50)
    mask = leat.ops.MaskTokens(40, 50)
    outputs = {"input_ids": leat.Out("tokens", [mask])}
    whole = next(iter(leat.Loader(ids, 2, outputs=outputs, framework="numpy")))
    part = next(iter(leat.Loader(ids, 2, outputs=outputs, mesh={"cp": (1, 2)}, cp="contiguous", framework="numpy")))
    for name in ("input_ids", "input_ids.labels"):
        assert (part[name] == whole[name][:, 8:]).all()


@pytest.mark.parametrize("chosen", [None, ["sequence", "positions"]])
def test_tokens_of_packed_rows_are_sliced_by_any_name(chosen: list[str] | None) -> None:
    documents = leat.from_arrays(sequence=np.arange(64).reshape(4, 16) % 50)
    rows = leat.pack_rows(documents, "sequence", 16)
    outputs = {"sequence": [leat.ops.MaskTokens(40, 50)], "positions": [], "doc_ids": []}
    batch = next(iter(leat.Loader(rows, 2, outputs=outputs, mesh={"cp": (0, 2)}, cp_outputs=chosen, framework="numpy")))
    sliced = {name for name in batch if batch[name].shape == (2, 8)}
    assert sliced == set(chosen or ["sequence", "sequence.labels", "positions", "doc_ids"])
    stored = next(iter(leat.Loader(rows, 2, mesh={"cp": (0, 2)}, framework="numpy")))
    assert {stored[name].shape for name in stored} == {(2, 8)}

"""Loaders: order, epochs, state, ranks, errors. The promises are named after DESIGN's."""

from __future__ import annotations

import importlib.util
import inspect
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from test_order_reference import blocks, pass_key

import leat
from leat import _leat

CHAIN = [
    leat.ops.Decode(),
    leat.ops.RandomResizedCrop(16),
    leat.ops.RandomHorizontalFlip(),
    leat.ops.Normalize(0.5, 0.5),
]


def loader(path: Path, batch_size: int | None = 7, *arguments: Any, **options: Any) -> leat.Loader:
    options.setdefault("framework", "numpy")
    return leat.Loader(leat.open(path), batch_size, *arguments, **options)


def ids(batches: Any) -> list[list[int]]:
    return [b.ids.tolist() for b in batches]


def flat(batches: Any) -> list[int]:
    return [i for b in batches for i in b.ids.tolist()]


# ---- same order ------------------------------------------------------------------------------------------------------


@given(threads=st.integers(1, 4), batches=st.integers(3, 12), seed=st.integers(0, 2**64 - 1))
def test_same_order_and_bytes_for_any_threads_and_budget(photos: Path, threads: int, batches: int, seed: int) -> None:
    outputs = {"image": CHAIN, "label": []}
    want = [
        (b.ids.tolist(), b["image"].tobytes(), b["label"].tobytes())
        for b in loader(photos, 5, shuffle=True, seed=seed, outputs=outputs)
    ]
    rows = 5 * (3 * 16 * 16 * 4 + 8)
    with loader(
        photos,
        5,
        shuffle=True,
        seed=seed,
        outputs=outputs,
        num_threads=threads,
        budget_bytes=(1 << 24) + batches * rows,
    ) as other:
        assert [(b.ids.tolist(), b["image"].tobytes(), b["label"].tobytes()) for b in other] == want


@given(
    world=st.integers(1, 5),
    size=st.integers(1, 23),
    seed=st.integers(0, 9),
    shuffle=st.booleans(),
    tail=st.sampled_from(["pad", "drop", "uneven"]),
)
def test_the_ranks_together_are_the_global_order(
    records: Path, world: int, size: int, seed: int, shuffle: bool, tail: Any
) -> None:
    size += world  # every rank has a row
    whole = loader(records, None, shuffle, seed=seed, global_batch_size=size, tail=tail)
    want = ids(whole)
    parts = [
        loader(records, None, shuffle, seed=seed, global_batch_size=size, tail=tail, rank=r, world_size=world)
        for r in range(world)
    ]
    got = [[(b.ids[b.valid].tolist(), len(b.ids)) for b in part] for part in parts]
    assert [len(part) for part in parts] == [len(g) for g in got]
    for step, rows in enumerate(want):
        assert [i for g in got if step < len(g) for i in g[step][0]] == rows
        if tail == "pad":
            assert len({g[step][1] for g in got if len(rows) < size}) <= 1


@given(seed=st.integers(0, 2**64 - 1), size=st.integers(1, 40))
def test_exactly_once_each_epoch_delivers_each_sample_once(records: Path, seed: int, size: int) -> None:
    made = loader(records, size, True, seed=seed)
    first, second = flat(made), flat(made)
    assert sorted(first) == sorted(second) == list(range(100)) and (first != second)


@given(rows=st.integers(1, 200))
def test_a_block_shuffle_is_a_permutation(records: Path, rows: int) -> None:
    assert sorted(flat(loader(records, 9, leat.Blocks(rows)))) == list(range(100))


@given(rows=st.integers(1, 110), windows=st.integers(1, 12), world=st.integers(1, 3), seed=st.integers(0, 9))
def test_blocks_have_the_window_that_is_asked_for(
    records: Path, rows: int, windows: int, world: int, seed: int
) -> None:
    shuffle = leat.Blocks(rows, window=rows * windows)
    parts = [
        loader(records, None, shuffle, global_batch_size=7, seed=seed, rank=r, world_size=world) for r in range(world)
    ]
    for epoch in range(2):
        steps = [[i for part in parts for i in part.plan(epoch, s).tolist()] for s in range(14)]
        assert sum(steps, []) == list(blocks(100, rows, pass_key(seed, 0, epoch), rows * windows))[:98]


def test_a_window_of_eight_blocks_is_the_default_one_and_another_one_has_states_of_its_own(records: Path) -> None:
    usual = loader(records, 9, leat.Blocks(3))
    state = usual.state_dict()
    stated, other = loader(records, 9, leat.Blocks(3, window=24)), loader(records, 9, leat.Blocks(3, window=27))
    assert stated.state_dict() == state and flat(stated) == flat(usual) != flat(other)
    loader(records, 9, leat.Blocks(3, window=24)).load_state_dict(state)
    with pytest.raises(leat.StateError, match=r'another order: .*this loader .*"block_window":27'):
        loader(records, 9, leat.Blocks(3, window=27)).load_state_dict(state)


def test_blocks_are_values(records: Path) -> None:
    for made in (leat.Blocks(3), leat.Blocks(3, 6), leat.Blocks(np.int64(3), window=np.int32(9))):
        assert eval(repr(made), {"Blocks": leat.Blocks}) == pickle.loads(pickle.dumps(made)) == made
        assert hash(pickle.loads(pickle.dumps(made))) == hash(made)
    assert len({leat.Blocks(3), leat.Blocks(3, None), leat.Blocks(3, 6), leat.Blocks(3, 9), leat.Blocks(2, 6)}) == 4
    assert repr(leat.Blocks(3)) == "Blocks(3)" and leat.Blocks(3) != 3


@pytest.mark.parametrize(
    ("window", "error", "said"),
    [
        (20, ValueError, r"window is a multiple of rows \(16\), not 20"),
        (8, ValueError, r"window is a multiple of rows \(16\), not 8"),
        (0, ValueError, "window is 1 or above"),
        (-16, ValueError, "window is 1 or above"),
        (1 << 63, ValueError, r"window is .* below 2\*\*63"),
        (32.0, TypeError, "window is an integer"),
        ("32", TypeError, "window is an integer"),
        (True, TypeError, "window is an integer"),
    ],
)
def test_a_window_that_is_no_number_of_blocks_is_an_error(window: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        leat.Blocks(16, window=window)


def test_without_shuffle_the_order_is_that_of_the_data_set(records: Path) -> None:
    assert flat(loader(records)) == list(range(100))


def test_ids_are_those_of_the_opened_data_set_in_views(records: Path) -> None:
    ds = leat.open(records)
    view = ds[50:][::-1].select([3, 1])
    assert flat(leat.Loader(view, 2)) == [96, 98]


# ---- exact resume ----------------------------------------------------------------------------------------------------


@given(cut=st.integers(0, 30), shuffle=st.booleans(), seed=st.integers(0, 5), size=st.sampled_from([7, 10, 33]))
def test_exact_resume_at_any_batch(records: Path, cut: int, shuffle: bool, seed: int, size: int) -> None:
    def stream(made: leat.Loader) -> Any:
        for _ in range(4):
            for batch in made:
                yield (batch.epoch, batch.step, batch.ids.tolist(), batch.row_keys.tolist())

    whole = list(stream(loader(records, size, shuffle, seed=seed)))
    first = loader(records, size, shuffle, seed=seed)
    taken = stream(first)
    for _ in range(cut):
        next(taken, None)
    state = json.loads(json.dumps(first.state_dict()))
    again = loader(records, size, shuffle, seed=seed)
    again.load_state_dict(state)
    rest = whole[cut:]
    assert [b for b, _ in zip(stream(again), rest, strict=False)] == rest


@given(cut=st.integers(0, 9), world=st.integers(1, 4), size=st.sampled_from([5, 20]))
def test_a_state_resumes_on_other_sizes_and_ranks(records: Path, cut: int, world: int, size: int) -> None:
    first = loader(records, 10, True, seed=3)
    taken = [i for _, b in zip(range(cut), first, strict=False) for i in b.ids.tolist()]
    state = first.state_dict()
    rest: list[list[list[int]]] = []
    for rank in range(world):
        part = loader(records, None, True, seed=3, global_batch_size=size, rank=rank, world_size=world)
        part.load_state_dict(state)
        rest.append([b.ids[b.valid].tolist() for b in part])
    rows = [i for step in range(max(map(len, rest))) for part in rest if step < len(part) for i in part[step]]
    want = flat(loader(records, 10, True, seed=3))
    assert (taken + rows == want) if cut < 10 else (sorted(rows) == sorted(want))


def test_a_state_of_another_data_set_is_an_error_that_says_so(records: Path, photos: Path) -> None:
    made = loader(photos)
    with pytest.raises(leat.StateError, match="data set|fingerprint"):
        made.load_state_dict(loader(records).state_dict())


def test_what_is_no_dict_is_a_type_error(records: Path) -> None:
    with pytest.raises(TypeError, match="state_dict"):
        loader(records, 5).load_state_dict(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [{}, {"at": 3}, {"state": 99}, {"at": b"x"}, {(1,): 2}])
def test_what_is_no_state_is_a_value_error(records: Path, state: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        loader(records).load_state_dict(state)


# ---- epochs and iterators --------------------------------------------------------------------------------------------


def test_set_epoch_of_the_loaded_epoch_keeps_the_position_and_another_one_warns(records: Path) -> None:
    made = loader(records, 10)
    next(iter(made))
    state = made.state_dict()
    kept, dropped = loader(records, 10), loader(records, 10)
    kept.load_state_dict(state)
    kept.set_epoch(0)
    assert next(iter(kept)).step == 1
    dropped.load_state_dict(state)
    with pytest.warns(UserWarning, match="position"):
        dropped.set_epoch(3)
    batch = next(iter(dropped))
    assert (batch.epoch, batch.step) == (3, 0)


@pytest.mark.parametrize(
    ("function", "cut"),
    [*((False, cut) for cut in (0, 1, 9, 10, 11, 25, 29, 30)), (True, 9), (True, 25)],  # a function has workers
)
def test_the_loop_of_saving_and_resuming_as_people_write_it(records: Path, function: bool, cut: int) -> None:
    """Three epochs of ten batches; the run ends after `cut` batches and is started again by the same lines."""
    outputs = {"x": [leat.ops.Map(lambda x: x + 1)], "label": []} if function else None

    def train(saved: dict[str, Any], seen: list[tuple[int, list[int]]], until: int) -> None:
        with leat.Loader(leat.open(records), 10, True, seed=3, outputs=outputs) as loader:
            if saved:
                loader.load_state_dict(saved["loader"])
            for epoch in range(loader.epoch, 3):
                for batch in loader:
                    if len(seen) == until:
                        return
                    assert epoch == loader.epoch == batch.epoch
                    seen.append((epoch, batch.ids.tolist()))
                    saved["loader"] = json.loads(json.dumps(loader.state_dict()))
                assert loader.epoch == epoch + 1 == loader.state_dict()["at"]["epoch"]

    whole: list[tuple[int, list[int]]] = []
    train({}, whole, -1)
    seen: list[tuple[int, list[int]]] = []
    saved: dict[str, Any] = {}
    train(saved, seen, cut)
    train(saved, seen, -1)
    assert seen == whole and len(whole) == 30


@given(
    st.integers(1, 40),
    st.integers(0, 30),
    st.lists(st.integers(1, 40), max_size=2),
    st.sampled_from(["pad", "drop", "uneven"]),
)
def test_a_state_names_the_batch_that_comes_next(
    records: Path, size: int, cut: int, sizes: list[int], tail: Any
) -> None:
    made = leat.Loader(leat.open(records), size, True, seed=3, tail=tail)
    for n in [None, *sizes]:
        if n is not None:
            made.set_batch_size(n)
        for _ in zip(range(cut), made):
            pass
        asked = made.batch_at(made.state_dict())
        resumed = leat.Loader(leat.open(records), size, True, seed=3, tail=tail)
        resumed.load_state_dict(made.state_dict())
        following = next(iter(resumed))
        assert (asked.epoch, asked.step, asked.ids.tolist()) == (
            following.epoch,
            following.step,
            following.ids.tolist(),
        )


@pytest.mark.parametrize(
    "edit", [{"seed": "4"}, {"log": []}, {"at": None}, {"at": {"epoch": 0}}, {"log": None}, {"fingerprint": "0"}]
)
def test_batch_at_refuses_a_state_of_another_run(records: Path, edit: dict[str, Any]) -> None:
    made = loader(records, seed=3)
    with pytest.raises(leat.StateError):
        made.batch_at({**made.state_dict(), **edit})


def test_batch_at_refuses_a_state_of_a_run_that_decided_otherwise(records: Path) -> None:
    made, other = loader(records, seed=3), loader(records, seed=3)
    made.set_batch_size(5)
    other.set_batch_size(9)
    with pytest.raises(leat.StateError, match=r"another run than this loader's \(log differ\)"):
        made.batch_at(other.state_dict())


@given(
    n=st.integers(0, 30),
    size=st.integers(1, 12),
    world=st.integers(1, 3),
    tail=st.sampled_from(["pad", "drop", "uneven"]),
)
def test_len_is_the_number_of_batches(records: Path, n: int, size: int, world: int, tail: Any) -> None:
    for rank in range(world):
        made = leat.Loader(leat.open(records)[:n], size, rank=rank, world_size=world, tail=tail)
        assert len(made) == sum(1 for _ in made)


def test_drop_last_leaves_out_the_short_batch(records: Path) -> None:
    assert [b.size for b in loader(records, 30, drop_last=True)] == [30, 30, 30]


# ---- plan and batch_at -----------------------------------------------------------------------------------------------


def test_the_plan_is_what_is_delivered(records: Path) -> None:
    made = loader(records, 9, True, rank=1, world_size=2)
    plan = [made.plan(0, step).tolist() for step in range(len(made))]
    assert plan == ids(made)


@pytest.mark.parametrize(("epoch", "step"), [(0, 10), (0, -1), (-1, 0), (1 << 64, 0), (0, (1 << 64) + 1)])
def test_a_step_out_of_range_is_an_index_error(records: Path, epoch: int, step: int) -> None:
    with pytest.raises(IndexError):
        loader(records, 10).plan(epoch, step)
    with pytest.raises(IndexError):
        loader(records, 10).batch_at(epoch, step)


# ---- outputs ---------------------------------------------------------------------------------------------------------


def test_without_outputs_every_field_comes_as_stored(mixed: Path) -> None:
    ds = leat.open(mixed)
    (batch,) = loader(mixed, 10)
    assert list(batch) == ["number", "flag", "vector", "boxes", "raw", "text", "meta", "image"]
    assert batch["number"].tolist() == [i / 4 for i in range(10)] and batch["flag"].dtype == bool
    assert batch["text"] == ["ä" * i for i in range(10)] and batch["meta"][2] == {"i": [2, None, "x"]}
    assert [v.tobytes() for v in batch["image"].unbind()] == [s["image"] for s in ds]
    assert [v.tobytes() for v in batch["boxes"]] == [s["boxes"].tobytes() for s in ds]
    assert batch["boxes"].values.shape == (sum(i % 4 for i in range(10)), 4)


def test_a_field_that_is_not_named_is_not_there(mixed: Path) -> None:
    (batch,) = loader(mixed, 10, outputs={"flag": []})
    assert list(batch) == ["flag"]
    with pytest.raises(KeyError, match="'number'"):
        batch["number"]


def test_the_same_operator_object_draws_once_for_two_outputs(photos: Path) -> None:
    crop = leat.ops.RandomResizedCrop(16)
    same = {"a": leat.Out("image", [leat.ops.Decode(), crop]), "b": leat.Out("image", [leat.ops.Decode(), crop])}
    two = {
        "a": leat.Out("image", [leat.ops.Decode(), leat.ops.RandomResizedCrop(16)]),
        "b": leat.Out("image", [leat.ops.Decode(), leat.ops.RandomResizedCrop(16)]),
    }
    batch = next(iter(loader(photos, 8, outputs=same)))
    assert batch["a"].tobytes() == batch["b"].tobytes()
    batch = next(iter(loader(photos, 8, outputs=two)))
    assert batch["a"].tobytes() != batch["b"].tobytes()


def test_a_program_read_from_json_gives_the_same_bytes(photos: Path) -> None:
    outputs: Any = {"image": CHAIN, "label": []}
    again = leat.program_from_json(leat.program_to_json(outputs))
    a, b = loader(photos, 8, True, outputs=outputs), loader(photos, 8, True, outputs=again)
    assert [x["image"].tobytes() for x in a] == [x["image"].tobytes() for x in b]


def test_a_photo_of_open_size_is_an_error_that_names_resize(photos: Path) -> None:
    with pytest.raises(TypeError, match="Resize"):
        loader(photos, outputs={"image": [leat.ops.Decode()]})


def test_a_chain_that_does_not_fit_its_field_is_a_type_error(records: Path) -> None:
    with pytest.raises(leat.ProgramError, match="Decode"):
        loader(records, outputs={"x": [leat.ops.Decode()]})


def test_an_output_of_a_field_that_is_not_there_is_a_key_error(records: Path) -> None:
    with pytest.raises(KeyError, match="picture"):
        loader(records, outputs={"picture": []})


def test_labels_of_a_folder_without_sub_folders_are_said_to_come_from_these(
    tmp_path: Path, jpeg: Callable[..., bytes]
) -> None:
    (tmp_path / "a.jpg").write_bytes(jpeg(8, 8))
    with pytest.raises(leat.MissingNameError, match="labels come from sub-folders, one per class"):
        loader(tmp_path, outputs={"image": CHAIN, "label": []})


def test_a_misspelt_argument_or_name_is_answered_with_the_nearest_one(records: Path) -> None:
    with pytest.raises(TypeError, match=r"leat.Loader has no order: shuffle=True, False or leat.Blocks"):
        leat.Loader(leat.open(records), 10, order="random")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="leat.Loader has no suffle: did you mean shuffle?"):
        leat.Loader(leat.open(records), 10, suffle=True)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="did you mean leat.Dataset?"):
        leat.DataSet  # noqa: B018


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("num_workers", "num_threads"),
        ("collate_fn", "leat.ops.MapBatch"),
        ("pin_memory", r"pin_memory\(\)"),
        ("prefetch_factor", "budget_bytes"),
        ("persistent_workers", "stay"),
        ("generator", "seed"),
    ],
)
def test_an_argument_of_pytorchs_loader_is_refused_with_what_there_is_instead(
    records: Path, name: str, instead: str
) -> None:
    with pytest.raises(TypeError, match=f"has no {name}: .*{instead}"):
        leat.Loader(leat.open(records), 4, **{name: 4})


def test_the_signature_is_that_of_the_arguments_there_are(records: Path) -> None:
    names = list(inspect.signature(leat.Loader).parameters)
    assert names[:3] == ["dataset", "batch_size", "shuffle"] and "num_threads" in names and "kwargs" not in names
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        leat.Loader(leat.open(records), 4, colour=3)  # type: ignore[call-arg]


def test_after_a_break_the_next_epoch_begins(records: Path) -> None:
    made = loader(records, 4, outputs=None)
    for _ in made:
        break
    assert [b.epoch for b in made] == [1] * len(made)


def test_layouts_have_the_shapes_and_strides_that_they_say(photos: Path) -> None:
    outputs = {
        name: leat.Out(
            "image",
            [leat.ops.Decode(), leat.ops.Resize((16, 8)), *([leat.ops.ToLayout(name)] if name != "default" else [])],
        )
        for name in ("default", "NHWC", "channels_last")
    }
    batch = next(iter(loader(photos, 4, outputs=outputs)))
    assert batch["default"].shape == (4, 3, 16, 8) and batch["default"].strides == (384, 128, 8, 1)
    assert batch["NHWC"].shape == (4, 16, 8, 3) and batch["channels_last"].shape == (4, 3, 16, 8)
    assert batch["channels_last"].strides == (384, 1, 24, 3)
    assert np.array_equal(batch["NHWC"].transpose(0, 3, 1, 2), batch["channels_last"])
    assert np.array_equal(batch["default"], batch["channels_last"])


# ---- broken samples --------------------------------------------------------------------------------------------------

PHOTO = {"image": [leat.ops.Decode(), leat.ops.Resize((8, 8))], "label": []}


def test_a_broken_photo_of_a_folder_is_named_with_its_file(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    for i in range(3):
        (tmp_path / f"{i}.jpg").write_bytes(jpeg(40, 40)[: 300 if i == 2 else None])
    made = leat.Loader(leat.open(tmp_path), 3, outputs={"image": CHAIN})
    for _ in range(2):  # found now, and known the second time
        with pytest.raises(leat.BrokenSampleError, match=r"sample 2\b.*2\.jpg") as found:
            next(iter(made))
        assert found.value.file == str(tmp_path / "2.jpg") and found.value.sample == 2


@pytest.mark.parametrize("on_error", ["raise", "skip", "substitute"])
def test_a_photo_that_was_packed_broken_is_named_with_its_reason_and_byte_each_time(
    tmp_path: Path, jpeg: Callable[..., bytes], on_error: Any
) -> None:
    path = tmp_path / "packed.leat"
    with leat.Writer(path, {"image": "image", "name": "str"}) as w:
        for i in range(3):
            w.add(image=jpeg(40, 40)[: 300 if i == 2 else None], name=f"cats/photo{i}.jpg")
    made = leat.Loader(leat.open(path), 3, outputs={"image": CHAIN}, on_error=on_error)
    texts = []
    for _ in range(2):
        if on_error == "raise":
            with pytest.raises(leat.BrokenSampleError) as found:
                next(iter(made))
            assert found.value.sample == 2 and found.value.offset == 212 and found.value.file == str(path)
            texts.append(str(found.value))
        else:
            texts.append(next(iter(made)).errors[0].reason)
    assert all("cats/photo2.jpg: JPEG" in text and "byte 212 of 300" in text for text in texts), texts


def test_a_broken_photo_says_how_to_go_on(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    def said(photo: bytes) -> str:
        (tmp_path / "photo.jpg").write_bytes(photo)
        with pytest.raises(leat.BrokenSampleError) as found:
            next(iter(leat.Loader(leat.open(tmp_path), 1, outputs={"image": CHAIN})))
        return str(found.value)

    way = 'to go on without it: Loader(on_error="skip" or "substitute"), or leat pack --on-error skip'
    whole = jpeg(40, 40)
    for cut in (len(whole) - 40, len(whole) - 2):
        text = said(whole[:cut])
        assert "; Decode(strict=False) decodes what there is; " + way in text
        chain = [leat.ops.Decode(strict=False), *CHAIN[1:]]
        assert len(next(iter(leat.Loader(leat.open(tmp_path), 1, outputs={"image": chain}))).ids) == 1
    for broken in (whole[:200], b"\x00\x00\x00\x18ftypheic" + bytes(40)):
        text = said(broken)
        assert way in text and "strict" not in text


def test_skip_leaves_the_row_out_and_moves_nothing_else(broken: Path) -> None:
    made = loader(broken, 4, outputs=PHOTO, on_error="skip")
    batches = list(made)
    assert ids(batches) == [[0, 1, 2], [4, 5, 6, 7], [8, 9, 10], [12, 13, 14, 15], [16, 17, 18, 19]]
    assert [b["label"].tolist() for b in batches] == ids(batches)
    assert [b["image"].shape[0] for b in batches] == [3, 4, 3, 4, 4]
    (error,) = batches[0].errors
    assert (error.row, error.planned, error.delivered) == (3, 3, None) and error.reason
    assert made.stats()["broken"]["skipped"] == 2 and len(made) == 5


def test_a_batch_of_which_no_row_is_left_says_what_goes_on(broken: Path) -> None:
    ds = leat.open(broken)
    left = [i for i in range(20) if i not in (3, 11)]
    with pytest.raises(leat.BrokenSampleError) as found:
        list(leat.Loader(ds, 1, outputs=PHOTO, on_error="skip"))
    said = re.search(r'on_error="substitute" or another batch_size, or over (ds.select\(.*\)); the', str(found.value))
    assert said and "[3]" in said[1] and 'on_error="skip" cannot leave out a whole batch' in str(found.value)
    assert len(eval(said[1], {"ds": ds, "np": np})) == 19
    assert len(list(leat.Loader(ds, 1, outputs=PHOTO, on_error="substitute"))) == 20
    assert len(list(leat.Loader(ds, 2, outputs=PHOTO, on_error="skip"))) == 10
    assert [b.ids.tolist() for b in leat.Loader(ds.select(left), 1, outputs=PHOTO)] == [[i] for i in left]


def test_substitute_says_what_to_do_about_an_output_that_varies(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    (tmp_path / "a.jpg").write_bytes(jpeg(40, 40))
    chain = {"image": PHOTO["image"], "name": []}
    with pytest.raises(ValueError, match=r"name varies from row to row: leave it out \(ids of the batch"):
        leat.Loader(leat.open(tmp_path), 1, outputs=chain, on_error="substitute")


# ---- samplers --------------------------------------------------------------------------------------------------------


def test_a_list_of_positions_is_the_order(records: Path) -> None:
    assert flat(loader(records, 2, sampler=[5, 3, -1, 5])) == [5, 3, 99, 5]


def test_a_list_of_positions_out_of_range_is_an_index_error(records: Path) -> None:
    with pytest.raises(IndexError, match="100"):
        loader(records, 2, sampler=[5, 100])


@pytest.mark.parametrize("weights", [[1.0, -1.0], [0.0, 0.0], [1.0, float("nan")], [1.0, float("inf")], [[1.0]], []])
def test_weights_that_no_draw_can_follow_are_refused(weights: list[Any]) -> None:
    with pytest.raises(ValueError, match="none below 0 and one above it"):
        leat.Weighted(weights, 3)


@pytest.mark.parametrize(("rank", "world_size"), [(2, 2), (-1, 2), (0, 0)])
def test_a_rank_that_is_none_of_the_world_is_refused(records: Path, rank: int, world_size: int) -> None:
    with pytest.raises(ValueError, match="rank|world_size"):
        loader(records, 4, rank=rank, world_size=world_size)


def test_without_replacement_nothing_is_drawn_twice(records: Path) -> None:
    weights = np.arange(1, 101)
    got = flat(loader(records, 25, sampler=leat.Weighted(weights, 60, replacement=False)))
    assert len(got) == len(set(got)) == 60


#: what a state puts back of a Sampler that was read once; without torch a state has nothing of one
READS = 1 if importlib.util.find_spec("torch") else 0


class Sampler:
    """As PyTorch's: read after iter(), a different list each time."""

    def __init__(self, n: int) -> None:
        self.n, self.reads = n, 0

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Any:
        self.reads += 1
        return iter(np.random.default_rng(self.reads).permutation(self.n).tolist())


def test_a_sampler_is_read_once_per_epoch_after_iter(records: Path) -> None:
    sampler = Sampler(100)
    made = loader(records, 30, sampler=sampler)
    assert sampler.reads == 0 and len(made) == 4
    for epoch in (1, 2, 3):
        assert flat(made) == np.random.default_rng(epoch).permutation(100).tolist()
    assert sampler.reads == 3


def test_the_length_of_an_epoch_of_a_sampler_follows_sizes_that_change_within_it(records: Path) -> None:
    for rank in range(3):
        made = loader(records, 4, sampler=Sampler(100), rank=rank, world_size=3, tail="uneven")
        batches = iter(made)
        next(batches)
        made.set_batch_size(10, at=(0, 2))
        with pytest.raises(leat.RangeError, match="epoch 1 has no step 1 yet: its list of positions"):
            made.set_batch_size(5, at=(1, 1))
        assert len(made) == 1 + len(list(batches)) == 5
        made.set_batch_size(20, at=(1, 0))
        assert len(made) == len(list(made)) == 2


def test_a_sampler_of_torch_is_taken(records: Path) -> None:
    torch = pytest.importorskip("torch")
    ds = leat.open(records)
    sampler = torch.utils.data.SubsetRandomSampler([1, 2, 3])
    assert sorted(flat(leat.Loader(ds, 2, sampler=sampler))) == [1, 2, 3]
    made = leat.Loader(ds, 10, sampler=torch.utils.data.RandomSampler(ds))
    assert sorted(flat(made)) == sorted(flat(made)) == list(range(100))


def test_a_sampler_resumes_in_mid_epoch_with_the_list_it_began_with(records: Path) -> None:
    made = loader(records, 30, sampler=Sampler(100))
    next(iter(made))
    other = Sampler(100)
    again = loader(records, 30, sampler=other)
    again.load_state_dict(json.loads(json.dumps(made.state_dict())))
    assert flat(again) == np.random.default_rng(1).permutation(100).tolist()[30:] and other.reads == READS
    assert flat(again) == np.random.default_rng(READS + 1).permutation(100).tolist() and other.reads == READS + 1


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20,000 samples: a list of their positions does not fit in a state."""
    path = tmp_path_factory.mktemp("many") / "many.leat"
    with leat.Writer(path, {"n": "int32"}) as w:
        w.write_batch({"n": np.arange(20000, dtype=np.int32)})
    return path


def test_a_large_list_of_a_sampler_is_kept_in_log_dir(many: Path, tmp_path: Path) -> None:
    made = loader(many, 3000, sampler=Sampler(20000), log_dir=tmp_path)
    next(iter(made))
    state = json.loads(json.dumps(made.state_dict()))
    assert len(json.dumps(state)) < 2000
    other = Sampler(20000)
    other.reads = 7
    again = loader(many, 3000, sampler=other, log_dir=tmp_path)
    again.load_state_dict(state)
    assert flat(again) == np.random.default_rng(1).permutation(20000).tolist()[3000:] and other.reads == (READS or 7)


def test_without_log_dir_a_sampler_that_gives_the_same_list_again_resumes(many: Path) -> None:
    made = loader(many, 3000, sampler=Sampler(20000))
    next(iter(made))
    again = loader(many, 3000, sampler=Sampler(20000))
    again.load_state_dict(made.state_dict())
    assert flat(again) == np.random.default_rng(1).permutation(20000).tolist()[3000:]


def test_without_log_dir_a_sampler_that_gives_another_list_is_a_state_error(many: Path) -> None:
    made = loader(many, 3000, sampler=Sampler(20000))
    next(iter(made))
    other = Sampler(20000)
    other.reads = 7
    with pytest.raises(leat.StateError, match="list"):
        loader(many, 3000, sampler=other).load_state_dict(made.state_dict())


def test_a_large_list_is_not_needed_between_epochs(many: Path) -> None:
    made = loader(many, 10000, sampler=Sampler(20000))
    for _ in made:
        pass
    other = Sampler(20000)
    other.reads = 7
    again = loader(many, 10000, sampler=other)
    again.load_state_dict(made.state_dict())
    batches = list(again)
    assert [b.epoch for b in batches] == [1, 1]
    assert flat(batches) == np.random.default_rng(1 + (READS or 7)).permutation(20000).tolist()


def test_a_distributed_sampler_is_an_error(records: Path) -> None:
    torch = pytest.importorskip("torch")
    ds = leat.open(records)
    sampler = torch.utils.data.distributed.DistributedSampler(ds, num_replicas=2, rank=0)
    with pytest.raises(ValueError, match="twice"):
        leat.Loader(ds, 2, sampler=sampler)


# ---- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 2, "global_batch_size": 2},
        {"batch_size": 0},
        {"batch_size": 2, "shuffle": True, "sampler": [1]},
        {"batch_size": 2, "tail": "cut"},
        {"batch_size": 2, "tail": "uneven", "drop_last": True},
        {"batch_size": 2, "on_error": "ignore"},
        {"batch_size": 2, "framework": "jax"},
        {"batch_size": 2, "yields": "list"},
        {"batch_size": 2, "rank": 1},
        {"batch_size": 2, "rank": 2, "world_size": 2},
        {"batch_size": 2, "num_threads": 0},
        {"batch_size": 2, "seed": -1},
        {"batch_size": 2, "epochs": 0},
        {"batch_size": 2, "budget_bytes": 100},
        {"batch_size": 2, "budget_bytes": 1 << 65},
        {"batch_size": (1 << 64) + 2},
        {"batch_size": 2, "sampler": leat.Weighted([1.0, 2.0], 3)},
    ],
    ids=str,
)
def test_an_argument_that_cannot_be_is_a_value_error(records: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        leat.Loader(leat.open(records), **options)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 2.5),
        ("batch_size", "3"),
        ("batch_size", True),
        ("seed", 1.5),
        ("seed", None),
        ("epochs", 1.0),
        ("num_threads", "all"),
        ("num_threads", None),
        ("shuffle", "no"),
        ("in_order", "no"),
        ("drop_last", "false"),
        ("drop_last", None),
        ("sampler", "abc"),
        ("sampler", 5),
        ("sampler", [0.5]),
        ("rank", "0"),
    ],
)
def test_an_argument_of_another_type_is_a_type_error_that_names_it(records: Path, name: str, value: Any) -> None:
    options: dict[str, Any] = {"batch_size": 2, **({"world_size": 2} if name == "rank" else {}), name: value}
    with pytest.raises(TypeError, match=name):
        leat.Loader(leat.open(records), **options)


def test_a_word_for_a_flag_is_a_type_error_that_names_it(tmp_path: Path) -> None:
    """As scripts and files of settings hold it: the word "false" would be true."""
    ds = leat.from_arrays(src=np.arange(4), dst=np.arange(4), t=np.arange(4), tokens=np.zeros((4, 2), np.int32))
    path, no = tmp_path / "a.leat", "false"
    leat.pack(ds, path, workers=0)
    store = leat.Store(tmp_path / "a.store", {"m": "int64"})
    refused: dict[str, list[Any]] = {
        "overwrite": [
            lambda: leat.Writer(path, {"x": "int64"}, overwrite=no),
            lambda: leat.pack(ds, path, overwrite=no),
            lambda: leat.write_megatron(ds, tmp_path / "m", overwrite=no),
            lambda: store.copy(tmp_path / "b.store", overwrite=no),
        ],
        "resume": [
            lambda: leat.Writer(path, {"x": "int64"}, resume=no),
            lambda: leat.tokenize(ds, path, tokenizer="none", resume=no),
        ],
        "check": [lambda: leat.Writer(path, {"x": "int64"}, check=no)],
        "read_only": [lambda: leat.Store(tmp_path / "a.store", read_only=no)],
        "replacement": [lambda: leat.Weighted([1.0], 1, replacement=no)],
        "normalized": [lambda: leat.boxes(normalized=no)],
        "pending": [lambda: leat.temporal(ds, pending=no)],
        "geometry": [lambda: leat.Out("image", [], geometry=no)],
        "exif": [lambda: leat.ops.Decode(exif=no)],
        "antialias": [lambda: leat.ops.Resize(8, antialias=no)],
        "reseed": [lambda: leat.DataLoader(ds, reseed=no)],
    }
    for name, calls in refused.items():
        for call in calls:
            with pytest.raises(TypeError, match=f"{name} is True or False, not 'false'"):
                call()
    assert len(leat.open(path)) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": "1"},
        {"epochs": 1.5},
        {"rank": "0"},
        {"order": "shuffled"},
        {"weight": "1"},
        {"program": 1},
        {"log_dir": 1},
        {"positions": 1},
        {"functions": ()},
        {"dataset": 1},
        {"dataset": None},
        {"no_such_option": 1},
    ],
    ids=str,
)
def test_the_extension_refuses_options_of_other_types_or_names(records: Path, wrong: dict[str, Any]) -> None:
    options = {"dataset": leat.open(records)._handle, "batch_size": 2}
    _leat.Loader.open(**options).close()
    with pytest.raises(TypeError):
        _leat.Loader.open(**options | wrong)


def test_integers_of_numpy_are_taken_wherever_integers_are(records: Path) -> None:
    three: Any = np.int64(3)
    made = leat.Loader(
        leat.open(records), three, seed=three, epochs=three, num_threads=three, rank=three - 3, world_size=three - 2
    )
    made.set_epoch(three - 1)
    assert made.plan(three - 3, three).tolist() == [9, 10, 11] and next(iter(made)).epoch == 2


def test_a_sampler_that_is_used_up_after_one_epoch_is_a_type_error(records: Path) -> None:
    with pytest.raises(TypeError, match="used up"):
        leat.Loader(leat.open(records), 2, sampler=(i for i in range(5)))


def test_a_sampler_of_batches_is_a_type_error_that_says_what_to_give(records: Path) -> None:
    torch = pytest.importorskip("torch")
    batches = torch.utils.data.BatchSampler(range(5), 2, False)
    with pytest.raises(TypeError, match="give its sampler"):
        leat.Loader(leat.open(records), 2, sampler=batches)


def test_a_path_instead_of_a_data_set_is_a_type_error(records: Path) -> None:
    with pytest.raises(TypeError, match="leat.open"):
        leat.Loader(str(records), 3)  # type: ignore[arg-type]


def test_whole_pictures_between_operators_are_in_the_budget(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    (tmp_path / "large.jpg").write_bytes(jpeg(3000, 2000))
    blur, resize = leat.ops.GaussianBlur(3), leat.ops.Resize((16, 16))
    for chain, fits in (([blur, resize], False), ([resize, blur], True)):
        outputs = {"image": [leat.ops.Decode(), *chain]}
        if not fits:
            with pytest.raises(leat.BudgetError, match=r"large\.jpg"):
                list(loader(tmp_path, 1, outputs=outputs, budget_bytes=32 << 20, num_threads=1))
        for more in ({}, {"budget_bytes": 100 << 20}, *([{"budget_bytes": 32 << 20}] if fits else [])):
            (batch,) = loader(tmp_path, 1, outputs=outputs, num_threads=1, **more)
            assert batch["image"].shape == (1, 3, 16, 16)


def test_stored_images_that_grow_are_in_the_budget(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (3, 400, 500, 3), np.uint8)
    ds = leat.from_arrays(
        {"x": leat.field("uint8", (400, 500, 3), layout="HWC"), "n": leat.field("int64")}, x=images, n=range(3)
    )
    grown = [leat.ops.RandomZoomOut(0, (6, 6), p=1.0), leat.ops.GaussianBlur(3), leat.ops.CenterCrop(8)]
    outputs = {"x": grown, "small": leat.Out("x", [leat.ops.CenterCrop(8)]), "n": []}
    with leat.Loader(ds, 3, outputs=outputs, num_threads=2) as whole:
        (batch,) = whole
        assert np.array_equal(batch["small"], images[:, 196:204, 246:254].transpose(0, 3, 1, 2))
    with (
        leat.Loader(ds, 3, outputs=outputs, num_threads=1, budget_bytes=32 << 20) as tight,
        pytest.raises(leat.BudgetError, match="field 'x'"),
    ):
        list(tight)


def test_ranks_come_from_the_environment(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    made = loader(records, 2)
    assert (made.rank, made.world_size) == (1, 3) and next(iter(made)).ids.tolist() == [2, 3]


def test_a_world_without_a_rank_is_an_error(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ValueError, match=r"WORLD_SIZE is 3, and RANK is not set: set it, too, or say rank and world_s"):
        loader(records, 2)
    assert loader(records, 2, rank=0, world_size=1).world_size == 1
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert loader(records, 2).world_size == 1


def test_tuples_are_yielded_in_the_order_of_outputs(records: Path) -> None:
    for x, label in loader(records, 10, outputs={"x": [], "label": []}, yields="tuple"):
        assert x.shape == (10, 3) and label.shape == (10,)


def test_with_padding_on_several_ranks_valid_is_appended_to_tuples(records: Path) -> None:
    made = loader(records, 16, yields="tuple", rank=0, world_size=3)
    assert all(len(values) == 3 and values[2].dtype == bool for values in made)


def test_a_closed_loader_says_so_and_its_batches_stay(records: Path) -> None:
    made = loader(records, 10)
    batch = next(iter(made))
    made.close()
    made.close()
    assert batch["label"].tolist() == list(range(10))
    for call in (lambda: next(iter(made)), made.state_dict, lambda: len(made)):
        with pytest.raises(leat.ClosedError):
            call()


def test_the_default_budget_has_room_for_a_large_photo_that_is_turned_in_batches_of_one(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "photos").mkdir()
    for i in range(3):
        Image.new("RGB", (3000, 2000), (90, 20 * i, 30)).save(tmp_path / "photos" / f"{i}.jpg", exif=exif)
    chain = [leat.ops.Decode(exif=True), leat.ops.CenterCrop(32)]
    with leat.Loader(leat.open(tmp_path / "photos"), 1, outputs={"image": chain}, epochs=1) as loader:
        assert sum(batch.size for batch in loader) == 3


def test_an_argument_is_not_set_once_the_loader_is_open(records: Path) -> None:
    opened = loader(records)
    fixed = [name for name in inspect.signature(leat.Loader).parameters if not hasattr(leat.Loader, name)]
    assert {"dataset", "batch_size", "shuffle", "seed", "rank", "outputs", "sampler"} <= set(fixed)
    for name in fixed:
        before = getattr(opened, name, None)
        with pytest.raises(AttributeError, match=f"{name} is an argument of leat.Loader, which is open: "):
            setattr(opened, name, 3)
        assert getattr(opened, name, None) == before
    assert not hasattr(opened, "batch_size") and not hasattr(leat.Loader, "batch_size")

    class Mine(leat.Loader):
        def __init__(self) -> None:
            super().__init__(leat.open(records), 5, framework="numpy")
            self.batch_size, self.seed = 5, 0  # the subclass's own

    assert Mine().batch_size == next(iter(Mine())).size == 5

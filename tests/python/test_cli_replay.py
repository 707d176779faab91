"""leat replay of photos that are stored as pixels, and of runs over a part of the data set."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cli_support import leat as command
from PIL import Image

import leat


def test_photos_that_are_stored_as_pixels_are_written_as_pictures(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    sizes, noise = [(1, 1), (40, 30), (301, 200)], np.random.default_rng(1)
    for i, (width, height) in enumerate(sizes):
        for mode in ("RGB", "L"):
            exif = Image.Exif()
            exif[0x0112] = 1 + (2 * i + (mode == "L")) % 8
            pixels = noise.integers(0, 256, (height, width, 3)[: 3 if mode == "RGB" else 2], np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / f"{i}{mode}.jpg", exif=exif)
    command("pack", tmp_path / "photos", tmp_path / "raw.leat", "--photos", "raw", "--quiet")
    data = leat.open(tmp_path / "raw.leat")
    with leat.Loader(data, len(data)) as loader:
        (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    command("replay", tmp_path / "state.json", tmp_path / "raw.leat", "--out", tmp_path / "out")
    files = json.loads((tmp_path / "out" / "batch.json").read_text())["outputs"]["image"]["files"]
    assert len(files) == 6
    for i, name in enumerate(files):
        assert name.endswith(f"-id{i}.png")
        with (
            Image.open(io.BytesIO((tmp_path / "out" / name).read_bytes())) as picture,
            Image.open(tmp_path / "photos" / data[i]["name"]) as came,
        ):
            assert picture.mode == came.mode and picture.getexif().get(0x0112, 1) == came.getexif()[0x0112]
            assert np.array_equal(np.asarray(picture).reshape(data[i]["image"].shape), data[i]["image"])


def test_such_pictures_pack_to_the_same_pixels(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.linear_gradient("L").convert("RGB").resize((90, 40)).save(tmp_path / "photos" / "a.jpg", exif=exif)
    command("pack", tmp_path / "photos", tmp_path / "raw.leat", "--photos", "raw", "--quiet")
    with leat.Loader(leat.open(tmp_path / "raw.leat"), 1) as loader:
        (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    command("replay", tmp_path / "state.json", tmp_path / "raw.leat", "--out", tmp_path / "out")
    command("pack", tmp_path / "out" / "image", tmp_path / "again.leat", "--photos", "raw", "--quiet")
    stored = []
    for name in ("raw", "again"):
        with leat.Loader(leat.open(tmp_path / f"{name}.leat"), 1, framework="numpy") as loader:
            stored.append(bytes(next(iter(loader))["image"].values))
    assert stored[0] == stored[1]


def test_no_output_is_written_over_another(tmp_path: Path) -> None:
    """17 outputs whose files would meet: each is found where batch.json says."""
    fields: dict[str, Any] = {"a": leat.field("int64", (None,)), "a.values": "int64", "a.offsets": "int64"}
    fields |= {"batch_": "str", "batch": "str", "batch__": "str", "batch_3": "str", "batch.json": "bytes"}
    fields |= {"b": "bytes", "b.json": "str", "c.npy": "bytes", "c": "int64", "c.png": "bytes"}
    fields |= {"d.values": "int64", "d": leat.field("int64", (None,))}
    fields |= {"e.length": "int64", "e": "str"}
    value: dict[str, Any] = {}
    for i, (name, f) in enumerate(fields.items()):
        value[name] = {"str": str(i), "bytes": bytes([i]), "int64": i}.get(f if isinstance(f, str) else "", [i, i + 1])
    with leat.Writer(tmp_path / "a.leat", fields) as w:
        w.add(**value)
    with leat.Loader(leat.open(tmp_path / "a.leat"), 1) as loader:
        (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    out = tmp_path / "out"
    command("replay", tmp_path / "state.json", tmp_path / "a.leat", "--out", out)
    outputs = json.loads((out / "batch.json").read_text())["outputs"]
    for name, given in value.items():
        about = outputs[name]
        if isinstance(given, list):
            assert np.load(out / about["values"]).tolist() == given, name
            assert np.load(out / about["offsets"]).tolist() == [0, 2], name
        elif isinstance(given, bytes):
            assert (out / about["files"][0]).read_bytes() == given, name
        elif isinstance(given, str):
            assert json.loads((out / about["file"]).read_text()) == [given], name
        else:
            assert np.load(out / about["file"]).tolist() == [given], name
    assert outputs["e"]["file"] == "e.json" and outputs["e.length"]["file"] == "e.length.npy"


def numbers(path: Path, n: int = 2000) -> leat.Dataset:
    with leat.Writer(path, {"x": "int64"}) as w:
        for i in range(n):
            w.add(x=i)
    return leat.open(path)


def replayed(
    data: leat.Dataset,
    folder: Path,
    *options: object,
    of: Sequence[str] = ("numbers",),
    shuffle: bool | leat.Blocks = True,
) -> list[int]:
    """The ids of the third batch of an epoch as the command has them; they are those of the loader."""
    with leat.Loader(data, 7, shuffle=shuffle, seed=3) as loader:
        running = iter(loader)
        for _ in range(2):
            next(running)
        (folder / "state.json").write_text(json.dumps(loader.state_dict()))
        ids = [int(i) for i in next(running).ids]
    command(
        "replay", folder / "state.json", *[folder / f"{name}.leat" for name in of], "--out", folder / "out", *options
    )
    assert json.loads((folder / "out" / "batch.json").read_text())["ids"] == ids
    return ids


def test_a_run_of_blocks_is_replayed_with_its_window(tmp_path: Path) -> None:
    data = numbers(tmp_path / "numbers.leat", 50)
    assert replayed(data, tmp_path, shuffle=leat.Blocks(4, window=16)) != replayed(
        data, tmp_path, shuffle=leat.Blocks(4)
    )


def test_runs_over_parts_of_a_data_set_are_replayed_from_the_state_alone(tmp_path: Path) -> None:
    whole = numbers(tmp_path / "numbers.leat")
    train, _, test = whole.split([0.7, 0.2, 0.1], seed=2**64 - 1)
    for part in (
        whole[3:700],
        whole[5:900:3],
        train,
        test,
        test[10:][::2],
        whole.select([9, 5, 5, *range(30, 60)]),
        train[100:].select([4] * 30),
    ):
        assert set(replayed(part, tmp_path)) <= set(part.ids.tolist())
    state = json.loads((tmp_path / "state.json").read_text())
    assert [step[0] for step in state["view"]] == ["split", "slice", "select"]
    for view in (
        [["slice", 0, 5000, 1]],
        [["split", [0.5], "0", 1]],
        [["select", [-1]]],
        [["turn"]],
        {},
        [7],
        [["select", 10**6, 3]],
    ):
        (tmp_path / "bad.json").write_text(json.dumps({**state, "view": view}))
        said = command(
            "replay", tmp_path / "bad.json", tmp_path / "numbers.leat", "--out", tmp_path / "out", code=2
        ).stderr
        assert "malformed" in said or "not within" in said or "not below" in said
    (tmp_path / "bad.json").write_text(json.dumps({**state, "view": [["slice", 0, 50, 1]]}))
    assert (
        "another part"
        in command("replay", tmp_path / "bad.json", tmp_path / "numbers.leat", "--out", tmp_path / "out", code=2).stderr
    )


def test_runs_over_joined_data_sets_are_replayed_from_all_that_were_opened(tmp_path: Path) -> None:
    a, b = numbers(tmp_path / "a.leat", 100), numbers(tmp_path / "b.leat", 150)
    train, test = a.split([0.8, 0.2], seed=1)
    views = leat.concat(b[10:90], train, b.select([4, 4, 149, 0]))
    for joined, of in (
        (leat.concat(a, b), "ab"),
        (leat.concat(a, b)[30:220], "ab"),
        (leat.concat(a, b).split([0.5, 0.5], seed=2)[1], "ab"),
        (leat.concat(test, train), "aa"),
        (leat.concat(a, test, b[::3]), "aab"),
        (views, "bab"),
        (views[3:].select(list(range(60, 10, -1))), "bab"),
        (leat.concat(b, views, leat.concat(views, a[5:])), "bbabbaba"),
    ):
        replayed(joined, tmp_path, of=of)
    state = json.loads((tmp_path / "state.json").read_text())
    for parts in ([[10**9, []]], [[5]], [[-1, []]], [[5, [["turn"]]]], [[5, []]], []):
        (tmp_path / "bad.json").write_text(json.dumps({**state, "view": [["concat", *parts]]}))
        said = command("replay", tmp_path / "bad.json", tmp_path / "a.leat", "--out", tmp_path / "out", code=2).stderr
        assert "malformed" in said


def test_a_long_selection_is_given_beside_the_state(tmp_path: Path) -> None:
    positions = np.random.default_rng(0).permutation(2000)[:900]
    part = numbers(tmp_path / "numbers.leat").select(positions)[100:]
    listed, other = tmp_path / "positions.txt", tmp_path / "other.txt"
    np.savetxt(listed, positions, "%d")
    np.savetxt(other, positions[::-1], "%d")
    replayed(part, tmp_path, "--select", listed)
    arguments = ("replay", tmp_path / "state.json", tmp_path / "numbers.leat", "--out", tmp_path / "out")
    assert len(json.dumps(json.loads((tmp_path / "state.json").read_text())["view"])) < 100
    assert "--select FILE" in command(*arguments, code=2).stderr
    assert "give the list that the run had" in command(*arguments, "--select", other, code=2).stderr
    other.write_text("1\n2\nthree\n")
    assert "entry 2 is no position" in command(*arguments, "--select", other, code=2).stderr


def test_a_state_that_does_not_describe_its_part_says_what_to_do(tmp_path: Path) -> None:
    with leat.Loader(numbers(tmp_path / "numbers.leat", 10)[3:7], 2) as loader:
        state = loader.state_dict()
    del state["view"]  # as states of earlier versions are
    (tmp_path / "state.json").write_text(json.dumps(state))
    said = command(
        "replay", tmp_path / "state.json", tmp_path / "numbers.leat", "--out", tmp_path / "out", code=2
    ).stderr
    assert "its run was over 4 samples, this one is over 10" in said and "loader.batch_at()" in said
    with leat.Loader(leat.open(tmp_path / "numbers.leat")[3:7], 2) as loader:
        loader.load_state_dict(state)


def test_a_run_over_packed_rows_is_replayed_in_its_own_program(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "d.leat", {"tokens": leat.field("uint16", (None,))}) as w:
        for i in range(20):
            w.add(tokens=range(i))
    with leat.Loader(leat.pack_rows(leat.open(tmp_path / "d.leat"), length=8), 2) as loader:
        (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    said = command("replay", tmp_path / "state.json", tmp_path / "d.leat", "--out", tmp_path / "out", code=2).stderr
    assert "packed rows" in said and "loader.batch_at()" in said


def test_a_sheet_is_drawn_where_it_has_room_and_else_the_rest_is_written(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "clips.leat", {"clip": leat.field(np.uint8, (3, 8, 8, 3))}) as writer:
        for i in range(209):
            writer.write({"clip": np.full((3, 8, 8, 3), i, np.uint8)})
    data = leat.open(tmp_path / "clips.leat")
    for rows, drawn in ((209, False), (20, True)):
        with leat.Loader(data[:rows], rows) as loader:
            (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
        out = tmp_path / f"out{rows}"
        command("replay", tmp_path / "state.json", tmp_path / "clips.leat", "--out", out)
        assert np.load(out / "clip.npy").shape == (rows, 3, 8, 8, 3)
        assert "clip" in json.loads((out / "batch.json").read_text())["outputs"]
        assert (out / "clip.png").exists() == drawn


def test_a_run_whose_order_stands_in_its_program_alone_is_told_by_its_kind(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"tokens": leat.field("int32", (None,)), "k": "int64"}) as w:
        for i in range(120):
            w.add(tokens=np.arange(i % 5 + 1, dtype=np.int32), k=i % 40)
    ds = leat.open(tmp_path / "a.leat")
    loaders = {
        "batches by size": leat.Loader(ds, batch_tokens=20),
        "batches by size,": leat.Loader(ds, batch_cost=20, cost="tokens.length"),
        "groups of samples": leat.Loader(leat.one_of(ds, by="k"), 4),
        "weights": leat.Loader(ds, 4, sampler=leat.Weighted(np.ones(120), 8)),
        "several sources": leat.Loader(leat.Mix.inferred(ds, "k"), 4),
    }
    for kind, loader in loaders.items():
        (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
        said = command("replay", tmp_path / "state.json", tmp_path / "a.leat", "--out", tmp_path / "out", code=2).stderr
        assert f"is of a run with {kind.rstrip(',')}, which do not stand in the state" in said

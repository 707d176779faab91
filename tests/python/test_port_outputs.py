"""Readers with outputs and draws of their own: what they get is what a loader of their own with these gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import jpeg
from port_support import seen
from process_support import eventually

import leat

ops = leat.ops
FIRST = {"image": [ops.Decode(), ops.RandomResizedCrop(32)], "label": []}
OTHER = {"image": [ops.Decode(), ops.RandomResizedCrop(24), ops.RandomHorizontalFlip(), ops.Normalize((0.5,), (0.5,))]}
LIST = {"image": leat.Out("image", [ops.Decode()], stack="list"), "label": []}
ROWS, BATCH = 80, 8


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    path = tmp_path_factory.mktemp("photos") / "p.leat"
    with leat.Writer(path, {"image": "image", "label": "int64"}) as writer:
        for i in range(ROWS):
            writer.add(image=jpeg(64 + 8 * (i % 3), 56, i), label=i)
    return leat.open(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ports"


@pytest.fixture
def port(photos: leat.Dataset, folder: Path) -> Iterator[leat.Port]:
    with loader(photos) as served, leat.Port(served, "p", folder=folder) as opened:
        yield opened


def loader(dataset: leat.Dataset, outputs: Any = FIRST, batch: int = BATCH, **options: Any) -> leat.Loader:
    return leat.Loader(dataset, batch, shuffle=True, seed=5, framework="numpy", outputs=outputs, **options)


def attach(folder: Path, *args: Any, **options: Any) -> Any:
    return leat.attach("p", *args, folder=folder, start="beginning", **options)


def lines(port: leat.Port, n: int) -> list[dict[str, Any]]:
    """The lines of a port, once they are so many."""
    eventually(lambda: len(port.stat()["lines"]) == n)
    found: list[dict[str, Any]] = port.stat()["lines"]
    return found


@pytest.mark.parametrize("batch", [BATCH, 12])
@pytest.mark.parametrize("outputs", [OTHER, {"label": []}, None], ids=["crop", "label", "the port's"])
def test_a_reader_with_outputs_of_its_own_gets_what_a_loader_with_them_gives(
    photos: leat.Dataset, folder: Path, port: leat.Port, outputs: Any, batch: int
) -> None:
    with attach(folder) as beside, attach(folder, batch, outputs=outputs) as reader:
        first = seen(next(iter(beside)))
        with loader(photos, outputs or FIRST, batch) as own, loader(photos) as same:
            assert [seen(b) for b in reader] == [seen(b) for b in own]
            assert [seen(b) for b in reader] == [seen(b) for b in own]
            assert first == seen(next(iter(same)))


def test_images_of_open_size_come_as_the_readers_outputs_say(
    photos: leat.Dataset, folder: Path, port: leat.Port
) -> None:
    with attach(folder, 4, outputs=LIST) as reader, loader(photos, LIST, 4) as own:
        for got, wanted in zip(reader, own, strict=True):
            assert [image.shape for image in got["image"]] == [image.shape for image in wanted["image"]]
            assert all(np.array_equal(a, b) for a, b in zip(got["image"], wanted["image"], strict=True))


def test_operators_that_see_whole_batches_may_be_a_readers_own(
    photos: leat.Dataset, folder: Path, port: leat.Port
) -> None:
    chain = [*FIRST["image"], ops.ToDtype("float32"), ops.MixUp(num_classes=ROWS)]
    mixed: Any = {("image", "label"): chain}
    with attach(folder, outputs=mixed) as reader, loader(photos, mixed) as own:
        assert [seen(b) for b in reader] == [seen(b) for b in own]


def test_the_same_outputs_are_made_once_for_all_who_want_them(
    photos: leat.Dataset, folder: Path, port: leat.Port
) -> None:
    with attach(folder, outputs=OTHER) as a, attach(folder, outputs=dict(OTHER)) as b, attach(folder):
        assert [x["consumers"] for x in lines(port, 2)] == [1, 2]
        for _ in range(4):
            assert all(seen(x) == seen(y) for x, y in zip(a, b, strict=True))
        line = lines(port, 2)[1]
        assert line["recomputed"] == 0 and 4 * ROWS <= line["samples"] <= 6 * ROWS  # and what is read ahead


def test_photos_that_two_lines_need_whole_are_decoded_once(photos: leat.Dataset, folder: Path) -> None:
    small, large = ({"image": [ops.Decode(), ops.Resize((n, n))]} for n in (24, 40))
    with loader(photos, small) as served, leat.Port(served, "p", folder=folder) as port:
        a, b = attach(folder), attach(folder, outputs=large)
        with a, b, loader(photos, large) as own:
            for _ in range(6):
                for _, y, wanted in zip(a, b, own, strict=True):
                    assert seen(y) == seen(wanted)
            decoded = port.stat()["loader"]["decoded"]
            assert decoded["hits"] > 0 and decoded["fills"] > 0


def test_a_line_ends_with_its_last_reader(photos: leat.Dataset, folder: Path, port: leat.Port) -> None:
    for _ in range(3):
        with attach(folder, outputs=OTHER) as reader:
            assert sum(x.size for x in reader) == ROWS
            assert len(lines(port, 2)) == 2
        assert len(lines(port, 1)) == 1


def test_batches_stay_as_they_were_when_their_line_has_ended(
    photos: leat.Dataset, folder: Path, port: leat.Port
) -> None:
    with loader(photos, OTHER) as own:
        with attach(folder, outputs=OTHER) as reader:
            held = next(iter(reader))
            image = held["image"]
        with attach(folder, outputs={"label": []}) as another:
            assert sum(x.size for x in another) == ROWS
        port.close()
        assert np.array_equal(image, next(iter(own))["image"])


def test_a_reader_of_a_port_that_is_started_again_goes_on_with_its_outputs(photos: leat.Dataset, folder: Path) -> None:
    with loader(photos) as served, loader(photos, OTHER) as own:
        port = leat.Port(served, "p", folder=folder)
        with attach(folder, outputs=OTHER, key=0) as reader:
            batches = iter(reader)
            got = [seen(next(batches)) for _ in range(3)]
            port.close()
            with leat.Port(served, "p", folder=folder):
                got += [seen(b) for b in batches]
        assert got == [seen(b) for b in own]


def test_positions_states_and_plans_are_of_the_ports_order_whatever_the_outputs(
    photos: leat.Dataset, folder: Path, port: leat.Port
) -> None:
    with loader(photos, OTHER) as own, attach(folder) as first, attach(folder, outputs=OTHER) as second:
        batches = iter(first)
        for _ in range(4):
            next(batches)
        second.load_state_dict(first.state_dict())
        wanted = [seen(b) for b in own][4:]
        assert [seen(b) for b in second] == wanted
        assert np.array_equal(second.plan(1, 2), first.plan(1, 2))
        assert seen(second.batch_at(0, 4)) == wanted[0]


def test_who_comes_later_begins_where_others_are_whatever_their_outputs(
    photos: leat.Dataset, folder: Path, port: leat.Port
) -> None:
    with attach(folder) as first:
        batches = iter(first)
        for _ in range(5):
            next(batches)
        with leat.attach("p", outputs=OTHER, folder=folder) as second:
            assert next(iter(second)).step == 5


# ---- keys ------------------------------------------------------------------------------------------------------------


def test_another_key_gives_the_same_rows_with_other_draws(photos: leat.Dataset, folder: Path, port: leat.Port) -> None:
    def epoch(key: int) -> tuple[list[Any], list[Any], list[Any]]:
        with attach(folder, key=key) as reader:
            got = [b.clone() for b in reader]
        return [b.ids for b in got], [b["image"] for b in got], [b.row_keys for b in got]

    (ids, images, keys), other, again = epoch(0), epoch(7), epoch(7)
    third = epoch(8)
    assert all(np.array_equal(ids, found[0]) for found in (other, again, third))
    assert np.array_equal(other[1], again[1]) and np.array_equal(other[2], again[2])
    for one, two in ((images, other[1]), (other[1], third[1])):
        assert not any(np.array_equal(a, b) for a, b in zip(np.concatenate(one), np.concatenate(two), strict=True))
    assert len({*np.concatenate(keys), *np.concatenate(other[2]), *np.concatenate(third[2])}) == 3 * ROWS


def test_a_key_changes_nothing_where_nothing_is_drawn(photos: leat.Dataset, folder: Path, port: leat.Port) -> None:
    with attach(folder, key=5) as reader, loader(photos) as own:
        assert all(np.array_equal(a["label"], b["label"]) for a, b in zip(reader, own, strict=True))


# ---- what does not fit -----------------------------------------------------------------------------------------------


def test_outputs_that_do_not_fit_are_refused_and_nobody_else_notices(
    photos: leat.Dataset, folder: Path, port: leat.Port
) -> None:
    huge = {"image": [ops.Decode(), ops.Resize((60000, 60000))]}
    with loader(photos) as own, attach(folder) as other:
        batches = iter(other)
        got = [seen(next(batches))]
        with pytest.raises(leat.MissingNameError, match="no_field"):
            attach(folder, outputs={"no_field": []}, patience=30)
        with pytest.raises(leat.ProgramError, match="Decode"):
            attach(folder, outputs={"image": [ops.RandomResizedCrop(8)]})
        with pytest.raises(leat.BudgetError, match="memory|bytes"):
            attach(folder, outputs=huge)
        with pytest.raises(leat.UnsupportedError, match="functions in Python"):
            attach(folder, outputs={"label": [ops.Map(np.copy)]})
        with pytest.raises(leat.InvalidError, match="sizes? per batch|size per batch|draws a size"):
            attach(folder, outputs={"image": [ops.Decode(), ops.RandomResizedCrop(leat.PerBatch([16, 32]))]})
        with pytest.raises(ValueError, match="key"):
            attach(folder, key=1 << 63)
        assert [seen(b) for b in batches] == [seen(b) for b in own][1:]
        assert len(got) == 1 and len(lines(port, 1)) == 1


def test_a_port_makes_only_so_many_programs_at_a_time(photos: leat.Dataset, folder: Path, port: leat.Port) -> None:
    readers = [attach(folder, outputs={"label": []}, key=key) for key in range(1, 33)]
    with pytest.raises(leat.HeldError, match="32 programs"):
        attach(folder, outputs={"label": []}, key=33)
    for reader in readers:
        reader.close()
    lines(port, 1)
    with attach(folder, outputs={"label": []}, key=33) as reader:
        assert sum(b.size for b in reader) == ROWS


def test_outputs_too_long_to_be_told_are_refused(photos: leat.Dataset, folder: Path, port: leat.Port) -> None:
    many = {f"label {i:5}": leat.Out("label", []) for i in range(3000)}
    with pytest.raises(ValueError, match="more than a port is told"):
        attach(folder, outputs=many)

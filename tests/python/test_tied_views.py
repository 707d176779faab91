"""Several views of one sample in a batch: what they draw is independent unless it is tied; rows go together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import leat

SIDE, CROP = 12, 6


def numbered(n: int = 64) -> leat.Dataset:
    """Images whose pixels tell where they lie: (id, y, x) in three channels."""
    y, x = np.mgrid[:SIDE, :SIDE]
    image = np.stack([np.stack([np.full((SIDE, SIDE), i), y, x]) for i in range(n)]).astype(np.uint8)
    return leat.from_arrays({"image": leat.field("uint8", (3, SIDE, SIDE), layout="CHW")}, image=image)


def corners(view: np.ndarray) -> np.ndarray:
    return view[:, 1:, 0, 0]


def loader(chains: dict[str, list[leat.ops.Operator]], **options: Any) -> leat.Loader:
    outputs = {name: leat.Out("image", chain) for name, chain in chains.items()}
    return leat.Loader(numbered(), 16, True, outputs=outputs, framework="numpy", **options)


@pytest.mark.parametrize("how", ["object", "name"])
def test_two_views_are_cut_alike_if_they_share_a_crop_or_its_name_and_apart_if_not(how: str) -> None:
    one = leat.ops.RandomCrop(CROP, name="crop")
    other = one if how == "object" else leat.ops.RandomCrop(CROP, name="crop")
    chains = {"a": [one], "b": [other, leat.ops.ToDtype("int16")], "free": [leat.ops.RandomCrop(CROP)]}
    apart = 0
    for batch in loader(chains):
        assert (batch["a"] == batch["b"]).all()
        assert (batch["a"][:, 0, 0, 0] == batch.ids).all()
        assert (batch["free"][:, 0, 0, 0] == batch.ids).all()
        apart += int((corners(batch["a"]) != corners(batch["free"])).any(1).sum())
    assert apart > 48  # of 64, in 49 places


def test_a_clean_image_and_its_augmented_one_stand_in_one_row_after_a_resume_too() -> None:
    chains: dict[str, list[leat.ops.Operator]] = {"clean": [], "moved": [leat.ops.RandomCrop(CROP)]}
    whole = list(loader(chains))
    first = loader(chains)
    for _, _batch in zip(range(2), first):
        state = first.state_dict()
    again = loader(chains, num_threads=1)
    again.load_state_dict(state)
    rest = list(again)
    assert [b.ids.tolist() for b in rest] == [b.ids.tolist() for b in whole[2:]]
    for batch, same in zip(rest, whole[2:]):
        assert (batch["moved"] == same["moved"]).all()
        for clean, moved in zip(batch["clean"], batch["moved"]):
            y, x = moved[1:, 0, 0]
            assert (clean[:, y : y + CROP, x : x + CROP] == moved).all()


def test_a_third_view_changes_nothing_of_the_other_two() -> None:
    two = loader({"a": [leat.ops.RandomCrop(CROP)], "b": [leat.ops.RandomCrop(CROP)]})
    three = loader({name: [leat.ops.RandomCrop(CROP)] for name in ("a", "b", "c")})
    for batch, more in zip(two, three):
        assert (batch["a"] == more["a"]).all()
        assert (batch["b"] == more["b"]).all()
        assert (corners(more["c"]) != corners(more["a"])).any()

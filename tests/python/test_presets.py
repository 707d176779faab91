"""Presets for classification and for learning without labels are the published recipes, operator by operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import leat

ops, presets = leat.ops, leat.presets
MEAN, STD = presets.IMAGENET_MEAN, presets.IMAGENET_STD


def test_imagenet_train_without_arguments_is_what_it_was() -> None:
    assert presets.imagenet_train() == [
        ops.Decode(),
        ops.RandomResizedCrop(224),
        ops.RandomHorizontalFlip(),
        ops.Normalize(MEAN, STD),
    ]
    assert presets.imagenet_val(160)[1] == ops.Resize(183)


@pytest.mark.parametrize(
    ("word", "policy"),
    [
        ("ra", ops.RandAugment(magnitude=7, interpolation="nearest")),
        ("ta_wide", ops.TrivialAugmentWide(interpolation="nearest")),
        ("augmix", ops.AugMix(5, interpolation="nearest")),
        ("imagenet", ops.AutoAugment("imagenet", "nearest")),
        ("svhn", ops.AutoAugment("svhn", "nearest")),
    ],
)
def test_imagenet_train_with_a_policy(word: str, policy: Any) -> None:
    chain = presets.imagenet_train(
        96, "float16", interpolation="nearest", auto_augment=word, magnitude=7, severity=5, random_erase=0.1
    )
    assert chain == [
        ops.Decode(),
        ops.RandomResizedCrop(96, interpolation="nearest"),
        ops.RandomHorizontalFlip(),
        policy,
        ops.Normalize(MEAN, STD),
        ops.RandomErasing(0.1),
        ops.ToDtype("float16"),
    ]


def test_an_unknown_policy_is_an_error() -> None:
    with pytest.raises(ValueError, match="policy is 'imagenet', 'cifar10' or 'svhn', not 'rand'"):
        presets.imagenet_train(auto_augment="rand")


def test_imagenet_eval_is_torchvisions() -> None:
    assert presets.imagenet_eval(176)[1:3] == [ops.Resize(256), ops.CenterCrop(176)]


def test_views_differ_and_are_as_published() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (8, 60, 70, 3)).astype(np.uint8)
    ds = leat.from_arrays({"image": leat.field("uint8", (60, 70, 3), layout="HWC")}, image=images)
    views = [presets.simclr(size=32), presets.byol(size=32), presets.dino(size=32, local_size=16, n_local=2)]
    for outputs in views:
        chains = {name: leat.Out(out.field, list(out.chain)[1:]) for name, out in outputs.items()}
        batch = leat.Loader(ds, 8, outputs=chains, framework="numpy").batch_at(0, 0)
        assert batch["view1"].shape == batch["view2"].shape == (8, 3, 32, 32)
        assert not np.array_equal(batch["view1"], batch["view2"])
    assert batch["local2"].shape == (8, 3, 16, 16)
    chain = presets.simclr(strength=0.5)["view1"].chain
    assert chain[3:] == [
        ops.RandomApply([ops.ColorJitter(0.4, 0.4, 0.4, 0.1)], 0.8),
        ops.RandomGrayscale(0.2),
        ops.RandomApply([ops.GaussianBlur(23, (0.1, 2.0))], 0.5),
        ops.ToDtype("float32"),
    ]
    second = presets.byol()["view2"].chain
    assert second[1] == ops.RandomResizedCrop(224, interpolation="bicubic")
    assert presets.dino()["local8"].chain[1] == ops.RandomResizedCrop(96, (0.05, 0.4), interpolation="bicubic")
    assert second[5:7] == [ops.RandomApply([ops.GaussianBlur(23)], 0.1), ops.RandomSolarize(128, 0.2)]


@pytest.mark.parametrize("make", [presets.simclr, presets.byol, presets.dino])
def test_a_size_in_the_place_of_the_field_is_refused(make: Any) -> None:
    with pytest.raises(TypeError, match="the field of an output is a name, or a tuple of names, not 32"):
        make(32)

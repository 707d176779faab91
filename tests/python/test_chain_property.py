"""Chains of operators drawn at random: fused, they make what each operator alone makes of what the one before made.

property_chains.py draws the examples, property_draws.py says which are looked at.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from photo_support import png
from property_chains import IMPOSSIBLE, Case, Drawing, image_case, one_by_one, run_image, run_tuple, tuple_case
from property_draws import EXAMPLES, Numbers, again, each

import leat
from leat.functions.steps import NativeStep

ops = leat.ops


def same(made: Any, want: Any, case: Any) -> None:
    """Both end in errors, or in the same bytes."""
    failed = isinstance(want, Exception)
    assert isinstance(made, Exception) == failed, f"{made!r}, one by one {want!r}\n{case}"
    if not failed:
        assert made.shape == want.shape and made.dtype == want.dtype, f"{made.shape}, one by one {want.shape}\n{case}"
        assert np.array_equal(made, want), f"{np.count_nonzero(made != want)} of {want.size} numbers differ\n{case}"


def attempt(run: Any, *args: Any) -> Any:
    try:
        return run(*args)
    except IMPOSSIBLE as e:
        return e


def check_image(case: Case) -> None:
    image = case.sample["image"]
    want = one_by_one(image, case.chain, lambda value, chain: run_image(value, chain, case.seed, "HWC"))
    for stored in ("HWC", "CHW", "PNG"):
        same(attempt(run_image, image, case.chain, case.seed, stored), want, f"{stored}, {case}")
        if not isinstance(want, Exception):  # the last stage writes an image whose size is known
            crop = ops.CenterCrop(want.shape[:2], name="last")
            same(run_image(image, [*case.chain, crop], case.seed, stored), want, f"{stored}, cropped, {case}")


def check_tuple(case: Case, folder: Path) -> None:
    def run(sample: Any, chain: list[Any]) -> Any:
        return run_tuple(folder, sample, chain, case.seed)

    want = one_by_one(case.sample, case.chain, run)
    made = attempt(run, case.sample, case.chain)
    if isinstance(want, Exception) or isinstance(made, Exception):
        same(made, want, case)
    else:
        for name, value in want.items():
            same(made[name], value, f"{name}, {case}")


@EXAMPLES
def test_a_chain_makes_of_an_image_what_its_operators_make_one_by_one(numbers: Numbers) -> None:
    each(numbers(400), lambda number: check_image(image_case(number)))


def check_rows(number: int, path: Path) -> None:
    """Photos of one or of several sizes through chains side by side: what a thread keeps from row to row changes
    none."""
    draw, rng = Drawing(number, targets=False), np.random.default_rng(number)
    sizes = [draw.size(70) if number % 2 else (30, 40 + number % 7) for _ in range(7)]
    photos = [png(rng.integers(0, 256, (*size, 3)).astype(np.uint8)) for size in sizes]
    with leat.Writer(path, {"image": "image"}) as writer:
        for photo in photos:
            writer.add(image=photo)
    steps, outputs = {}, {}
    for name in ("a", "b"):
        chain = [ops.Decode(), *draw.chain(1, 5, 0), *draw.rnd.choice([[], [ops.Resize(draw.size(), name=name)]])]
        try:
            steps[name] = NativeStep.make(leat.field("image"), chain, name, "image")
        except leat.ProgramError:
            continue
        outputs[name] = leat.Out("image", chain, stack="list")
    if not outputs:
        return
    threads, rows = 1 + number % 3, 1 + number % 4
    try:
        with leat.Loader(
            leat.open(path), rows, outputs=outputs, framework="numpy", seed=number, num_threads=threads
        ) as it:
            for batch in it:
                for row, (sample, key) in enumerate(zip(batch.ids, batch.row_keys, strict=True)):
                    for name, step in steps.items():
                        want = step.apply(photos[sample], int(key), 0)
                        same(
                            np.array(batch[name][row]),
                            want,
                            f"case {number}, row {row} of {batch.ids}: {outputs[name]}",
                        )
    except leat.BrokenSampleError:
        pass  # a photo that is too small


@EXAMPLES
def test_rows_of_a_batch_are_what_each_value_becomes_alone(numbers: Numbers, tmp_path: Path) -> None:
    each(numbers(60), lambda number: check_rows(number, tmp_path / f"{number}.leat"))


@EXAMPLES
def test_a_chain_makes_of_an_image_and_its_targets_what_its_operators_make_one_by_one(
    numbers: Numbers, tmp_path: Path
) -> None:
    each(numbers(80), lambda number: check_tuple(tuple_case(number), tmp_path))


@EXAMPLES
def test_masks_of_instances_go_where_a_mask_of_class_ids_goes(numbers: Numbers, tmp_path: Path) -> None:
    end = ops.CenterCrop((24, 30), name="last")

    def check(number: int) -> None:
        case = tuple_case(number)
        n, (h, w) = len(case.sample["label"]), case.sample["mask"].shape
        drawn = np.random.default_rng(number).integers(0, 2, (n, h, w)).astype(np.uint8)
        masks = {k: v for k, v in case.sample.items() if k != "mask"} | {"masks": leat.encode_masks(list(drawn))}
        made = run_tuple(tmp_path, masks, [*case.chain, end], case.seed, None)
        for mask, label in zip(made["masks"], made["label"], strict=True):
            one = case.sample | {"mask": drawn[label]}
            same(mask, run_tuple(tmp_path, one, [*case.chain, end], case.seed, None)["mask"], case)

    each(numbers(60), check)


@EXAMPLES
def test_every_instruction_set_makes_the_same_bytes(numbers: Numbers) -> None:
    """A set that the processor lacks changes nothing, so this holds everywhere."""
    script = Path(__file__).with_name("property_chains.py")
    chosen = numbers(300)
    made = [
        subprocess.Popen(
            [sys.executable, script, str(chosen.start), str(len(chosen))],
            env={**os.environ, "LEAT_ISA": isa},
            stdout=subprocess.PIPE,
            text=True,
        )
        for isa in ("portable", "avx2", "avx512")
    ]
    lines = [process.communicate()[0].splitlines() for process in made]
    assert all(process.returncode == 0 for process in made)
    assert len(lines[0]) == len(chosen)
    for number, of_each in zip(chosen, zip(*lines, strict=True), strict=True):
        assert len(set(of_each)) == 1, f"{of_each}\n{again(number)}"

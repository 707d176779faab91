"""Loaders whose batches come on a card, for which tests/c/device/standin.c stands: the same bytes as without one."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from card_support import CHAINS, MEAN, STD, check_read, run_reader, same, standin_card, write_all_kinds
from photo_support import noise, save

import leat
from leat import _leat, ops

torch: Any = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with standin_card(tmp_path_factory.mktemp("standin")) as path:
        yield path


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return write_all_kinds(tmp_path_factory.mktemp("photos") / "photos.leat", "original")


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return write_all_kinds(tmp_path_factory.mktemp("fast") / "photos.leat", "fast")


#: chains that a card's kernels do not make, or a table
ON_THE_PROCESSOR = ("gray", "bytes", "double", "erased")


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("chain", CHAINS)
def test_batches_are_those_of_the_host_bit_for_bit(driver: Path, photos: Any, chain: str, prefetch: int) -> None:
    outputs = {"image": CHAINS[chain], "label": [], "tokens": [], "text": []}
    options: dict[str, Any] = {"batch_size": 8, "shuffle": True, "seed": 3, "outputs": outputs, "epochs": 2}
    there = leat.Loader(photos, **options, device="cuda", prefetch=prefetch)
    here = leat.Loader(photos, **options)
    for _ in range(2):
        for found, wanted in zip(there, here, strict=True):
            same(found, wanted)
    told = there.stats()["device"]
    assert told["batches"] == 12 and told["late"] == 0
    if chain not in ON_THE_PROCESSOR:
        assert told["photos"] == (0 if chain == "float16" else 90)  # its result has fewer bytes than a photo
        return
    assert told["photos"] == 0
    pixels = 90 * np.prod(here.batch_at(0, 0)["image"].shape[1:])
    size = {"bytes": 1, "double": 8, "erased": 4}.get(chain, 1)  # what travels: bytes, where a table makes the rest
    assert pixels * size <= told["bytes"] <= pixels * size + 90 * 400
    assert (told["ahead"] > 0) == (prefetch > 0)


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("chain", CHAINS)
def test_photos_in_the_fast_form_are_decoded_there_bit_for_bit(
    driver: Path, fast: Any, chain: str, prefetch: int
) -> None:
    options: dict[str, Any] = {"batch_size": 7, "shuffle": True, "seed": 4, "outputs": {"image": CHAINS[chain]}}
    there = leat.Loader(fast, **options, device="cuda", prefetch=prefetch, epochs=1)
    for found, wanted in zip(there, leat.Loader(fast, **options), strict=True):
        same(found, wanted)
    stats = there.stats()
    assert stats["device"]["photos"] == (0 if chain in ON_THE_PROCESSOR else 45)
    assert next(step["s"] for step in stats["operators"] if step["step"] == "Decode") > 0


@pytest.mark.parametrize("index", [True, False])
def test_jpegs_travel_coded_where_their_index_is_known_and_else_as_blocks_or_pixels(
    driver: Path, tmp_path: Path, index: bool
) -> None:
    from PIL import Image

    turned = Image.Exif()
    turned[0x0112] = 6
    smooth = np.add.outer(np.arange(90), np.arange(120)).astype(np.uint8)[..., None].repeat(3, 2)
    kinds = [  # a photo, and whether a card gets it without an index, as blocks, and with one, as it is coded
        (save(smooth, "JPEG", quality=90), (True, True)),
        (save(noise(90, 120, 3), "JPEG", quality=98), (False, True)),
        (save(smooth, "JPEG", progressive=True), (False, False)),
        (save(smooth[..., 0], "JPEG"), (True, True)),
        (save(smooth, "PNG"), (False, False)),
        (save(smooth, "JPEG", exif=turned.tobytes()), (False, False)),
        (save(np.full((1000, 1000, 3), 90, np.uint8), "JPEG", optimize=True), (False, True)),
    ]
    with leat.Writer(tmp_path / "p.leat", {"image": "image"}, check=index) as w:
        for i in range(35):
            w.add(image=kinds[i % 7][0])
    ds = leat.open(tmp_path / "p.leat")
    chain = [ops.Decode(exif=True), ops.Resize((64, 80)), ops.RandomHorizontalFlip(), ops.Normalize(MEAN, STD)]
    options: dict[str, Any] = {"batch_size": 8, "shuffle": True, "outputs": {"image": chain}}
    there, here = leat.Loader(ds, **options, device="cuda", epochs=2), leat.Loader(ds, **options)
    for _ in range(2):  # without an index the first one scans
        for found, wanted in zip(there, here, strict=True):
            same(found, wanted)
    told = there.stats()["device"]
    assert told["photos"] == 5 * sum(coded + (coded if index else blocks) for _, (blocks, coded) in kinds)
    assert told["bytes"] < 70 * 0.8 * 64 * 80 * 3


@pytest.mark.parametrize("pressed", [False, True])
def test_a_loader_reads_the_first_photo_as_it_opens_and_can_be_interrupted_there(driver: Path, pressed: bool) -> None:
    class Source:
        fields: Any = {"image": "image"}

        def __init__(self) -> None:
            self.read_of: list[int] = []

        def __len__(self) -> int:
            return 4

        def read(self, positions: Any) -> dict[str, Any]:
            self.read_of.extend(positions.tolist())
            if pressed:
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                ended.wait(60)
            return {"image": [save(np.zeros((20, 20, 3), np.uint8), "JPEG") for _ in positions]}

    def press(*_: Any) -> None:
        raise KeyboardInterrupt

    ended, source = threading.Event(), Source()
    ds, outputs = leat.from_source(source), {"image": CHAINS["float32"]}
    before = signal.signal(signal.SIGALRM, press)
    try:
        if pressed:
            with pytest.raises(KeyboardInterrupt):
                leat.Loader(ds, 2, outputs=outputs, device="cuda")
        else:
            there = leat.Loader(ds, 2, outputs=outputs, device="cuda", epochs=1)
            assert source.read_of == [0]
            assert len(list(there)) == 2 and there.stats()["device"]["photos"] == 4
    finally:
        ended.set()
        signal.signal(signal.SIGALRM, before)


def test_other_photos_among_them_travel_as_pixels(driver: Path, tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "p.leat", {"image": "image"}, photos="fast") as w:
        for i in range(12):
            w.add(image=save(noise(50, 40 + i, 3), "PNG" if i % 3 == 1 else "JPEG"))
    ds = leat.open(tmp_path / "p.leat")
    options: dict[str, Any] = {"batch_size": 5, "outputs": {"image": CHAINS["float32"]}}
    there = leat.Loader(ds, **options, device="cuda", epochs=1)
    for found, wanted in zip(there, leat.Loader(ds, **options), strict=True):
        same(found, wanted)
    assert there.stats()["device"]["photos"] == 8


def test_a_photo_of_several_outputs_goes_there_for_each(driver: Path, photos: Any, fast: Any) -> None:
    outputs = {name: leat.Out("image", CHAINS[name]) for name in ("float32", "NHWC", "both")}
    for ds in (photos, fast):
        options: dict[str, Any] = {"batch_size": 8, "shuffle": True, "outputs": outputs}
        there = leat.Loader(ds, **options, device="cuda", epochs=1)
        for found, wanted in zip(there, leat.Loader(ds, **options), strict=True):
            same(found, wanted)
        told = there.stats()["device"]["photos"]
        assert told == 3 * 45


def test_a_step_that_a_card_does_not_know_is_done_here(driver: Path, fast: Any) -> None:
    chain = [ops.Decode(), ops.CenterCrop(20), ops.ColorJitter(0.2), ops.Normalize(MEAN, STD)]
    options: dict[str, Any] = {"batch_size": 9, "outputs": {"image": chain, "b": leat.Out("image", CHAINS["float32"])}}
    there = leat.Loader(fast, **options, device="cuda", epochs=1)
    for found, wanted in zip(there, leat.Loader(fast, **options), strict=True):
        same(found, wanted)
    assert there.stats()["device"]["photos"] == 45  # of the other output


def test_fields_with_a_layout_tuples_and_views_are_cut_too(driver: Path, photos: Any) -> None:
    outputs = {
        "grid": [ops.Normalize(MEAN, STD)],
        ("image", "boxes"): [ops.Decode(), ops.Resize((12, 12)), ops.RandomHorizontalFlip(), ops.Normalize(MEAN, STD)],
        "b": leat.Out("image", [ops.Decode(), ops.Resize((5, 6)), ops.Normalize(MEAN, STD)]),
    }
    options: dict[str, Any] = {"batch_size": 7, "shuffle": True, "outputs": outputs, "drop_last": True, "epochs": 1}
    with leat.Loader(photos, **options, device="cuda") as there, leat.Loader(photos, **options) as here:
        for found, wanted in zip(there, here, strict=True):
            same(found, wanted)
        told = there.stats()["device"]
    assert told["bytes"] < 42 * (45 + 432 + 90 + 200)


def test_open_images_come_as_lists(driver: Path, photos: Any) -> None:
    outputs = {"image": leat.Out("image", [ops.Decode(), ops.Normalize(MEAN, STD)], stack="list"), "label": []}
    for found, wanted in zip(
        leat.Loader(photos, 4, outputs=outputs, device="cuda"), leat.Loader(photos, 4, outputs=outputs), strict=True
    ):
        same(found, wanted)


@pytest.mark.parametrize("form", ["original", "fast"])
def test_states_peeks_parts_and_batches_again(driver: Path, photos: Any, fast: Any, form: str) -> None:
    photos = fast if form == "fast" else photos
    outputs = {"image": CHAINS["float32"], "label": []}
    options: dict[str, Any] = {"batch_size": 8, "shuffle": True, "seed": 5, "outputs": outputs}
    there, here = leat.Loader(photos, **options, device="cuda"), leat.Loader(photos, **options)
    batches, wanted = iter(there), list(here)
    same(next(batches), wanted[0])
    there.peek()  # and let go of
    gc.collect()
    same(next(batches), wanted[1])
    ahead = there.peek()
    assert next(batches) is ahead
    same(ahead, wanted[2])
    here.load_state_dict(there.state_dict())
    same(next(iter(here)), wanted[3])
    same(there.batch_at(0, 1), wanted[1])
    for part, part_here in zip(ahead.split(3), wanted[2].split(3), strict=True):
        same(part, part_here)
    other = leat.Loader(photos, **options, device="cuda")
    other.load_state_dict(there.state_dict())
    same(next(iter(other)), wanted[3])
    probe = there.consumer(batch_size=4)
    assert next(iter(probe))["label"].tolist() == wanted[3]["label"][:4].tolist()


def test_rows_come_without_order_too_and_sizes_change(driver: Path, photos: Any) -> None:
    outputs = {"image": CHAINS["float32"], "label": []}
    here = {int(i): x for b in leat.Loader(photos, 8, outputs=outputs) for i, x in zip(b.ids, b["image"], strict=True)}
    seen: list[int] = []
    for batch in leat.Loader(photos, 8, outputs=outputs, device="cuda", in_order=False):
        seen += batch.ids.tolist()
        assert all(torch.equal(x, here[int(i)]) for i, x in zip(batch.ids, batch["image"], strict=True))
    assert sorted(seen) == list(range(45))
    there, sizes = leat.Loader(photos, 8, outputs=outputs, device="cuda"), []
    for i, batch in enumerate(there):
        sizes.append(batch.size)
        assert all(torch.equal(x, here[int(i)]) for i, x in zip(batch.ids, batch["image"], strict=True))
        if i == 1:
            there.set_batch_size(13)
    assert sizes == [8, 8, 13, 13, 3]


def negative(x: Any) -> Any:
    return -x


def test_functions_mixtures_and_tuples_go_there_too(driver: Path, photos: Any, fast: Any) -> None:
    outputs = {"image": [ops.Decode(), ops.CenterCrop(8), ops.Map(negative, returns=leat.field("uint8", (8, 8, 3)))]}
    for found, wanted in zip(
        leat.Loader(photos, 9, outputs=outputs, device="cuda"), leat.Loader(photos, 9, outputs=outputs), strict=True
    ):
        same(found, wanted)
    mix = leat.Mix({"a": (fast, 0.7), "b": (photos, 0.3)}, epoch_rows=60)
    options: dict[str, Any] = {"batch_size": 8, "outputs": {"image": CHAINS["float32"], "label": []}, "seed": 9}
    for found, wanted in zip(leat.Loader(mix, **options, device="cuda"), leat.Loader(mix, **options), strict=True):
        same(found, wanted)
    there = leat.Loader(fast, **options, device="cuda", yields="tuple", rank=1, world_size=4)
    here = leat.Loader(fast, **options, yields="tuple", rank=1, world_size=4)
    for a, b in zip(there, here, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True)) and len(a) == 3


def test_broken_photos_follow_the_policy(driver: Path, tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "b.leat", {"image": "image"}, check=False) as w:
        for i in range(20):
            good = save(noise(30, 30, 3), "JPEG")
            w.add(image=good[: len(good) // 2] if i % 6 == 1 else good)
    ds = leat.open(tmp_path / "b.leat")
    for on_error in ("skip", "substitute"):
        options: dict[str, Any] = {"outputs": {"image": CHAINS["both"]}, "on_error": on_error}
        for found, wanted in zip(
            leat.Loader(ds, 6, **options, device="cuda"), leat.Loader(ds, 6, **options), strict=True
        ):
            same(found, wanted)


@pytest.mark.parametrize("where", ["file", "folder"])
def test_photos_that_are_damaged_and_never_verified_follow_the_policy(driver: Path, tmp_path: Path, where: str) -> None:
    photos = [save(noise(120, 160 + i, 3), "JPEG", quality=80) for i in range(8)]
    chain = [ops.Decode(), ops.Resize((100, 100)), ops.Normalize(MEAN, STD)]
    index_dir = {"index_dir": tmp_path / "indexes"} if where == "folder" else {}
    if where == "file":
        path = bad = tmp_path / "p.leat"
        with leat.Writer(path, {"image": "image"}) as w:
            for photo in photos:
                w.add(image=photo)
    else:
        path, bad = tmp_path / "folder", tmp_path / "folder" / "a" / "3.jpg"
        bad.parent.mkdir(parents=True)
        for i, photo in enumerate(photos):
            (bad.parent / f"{i}.jpg").write_bytes(photo)
        list(leat.Loader(leat.open(path, **index_dir), 4, outputs={"image": chain}, epochs=1))
        gc.collect()
        assert list((tmp_path / "indexes").iterdir())  # written as the data set goes
    times, content = bad.stat(), bytearray(bad.read_bytes())
    middle = content.index(photos[3]) + len(photos[3]) // 2
    content[middle : middle + 60] = b"\xff\xd9" * 30
    bad.write_bytes(content)
    os.utime(bad, ns=(times.st_atime_ns, times.st_mtime_ns))
    ds = leat.open(path, recheck="never", **index_dir)
    for on_error in ("skip", "substitute"):
        options: dict[str, Any] = {"outputs": {"image": chain}, "on_error": on_error, "epochs": 1}
        here = list(leat.Loader(ds, 4, **options))
        assert [b.ids.tolist() for b in here if 3 in b.ids] == []
        for found, wanted in zip(leat.Loader(ds, 4, **options, device="cuda"), here, strict=True):
            same(found, wanted)


def test_sequences_are_made_here_and_moved(driver: Path, tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "docs.leat", {"tokens": leat.field("int64", (None,))}) as w:
        for n in (3, 9, 4, 12, 7):
            w.add(tokens=np.arange(n))
    packed = leat.pack_rows(leat.open(tmp_path / "docs.leat"), "tokens", length=16, how="ragged")
    for found, wanted in zip(
        leat.Loader(packed, batch_tokens=32, device="cuda"), leat.Loader(packed, batch_tokens=32), strict=True
    ):
        assert torch.equal(found["tokens"], wanted["tokens"]) and torch.equal(found["cu_seqlens"], wanted["cu_seqlens"])
        assert torch.equal(found.ids, wanted.ids)


def test_stores_come_with_the_batch(driver: Path, photos: Any, tmp_path: Path) -> None:
    with leat.Store(tmp_path / "s", {"x": leat.field("float32", (2,))}, dataset=photos) as store:
        store[np.arange(45)] = np.arange(90, dtype=np.float32).reshape(45, 2)
        store.flush()
        for batch in leat.Loader(photos, 9, outputs={"label": []}, stores={"s": store}, device="cuda"):
            assert torch.equal(batch["s"][:, 0], batch["label"].float() * 2)


def test_a_card_that_is_full_is_an_error_after_which_the_batch_comes_again(driver: Path, photos: Any) -> None:
    outputs = {"image": CHAINS["float32"]}
    there = leat.Loader(photos, 8, outputs=outputs, device="cuda", device_budget_bytes=400_000, prefetch=1)
    wanted = list(leat.Loader(photos, 8, outputs=outputs))
    held, batches = [], iter(there)
    with pytest.raises(leat.BudgetError, match=r"bytes of the card's memory are wanted, and \d+ of the 400000"):
        while True:
            held.append(next(batches))
    n = len(held)
    assert 0 < n < 5
    for found, here in zip(held, wanted, strict=False):
        same(found, here)
    state = there.state_dict()
    assert state["at"]["row"] == 8 * n
    del held, found
    for here in wanted[n:]:
        same(next(batches), here)


def test_what_does_not_go_together_is_refused(driver: Path, photos: Any) -> None:
    with pytest.raises(leat.UnsupportedError, match="gives tensors"):
        leat.Loader(photos, 4, device="cuda", framework="numpy")
    with pytest.raises(leat.UnsupportedError, match="share="):
        leat.Loader(photos, 4, device="cuda", share="job")
    with pytest.raises(ValueError, match="prefetch"):
        leat.Loader(photos, 4, device="cuda", prefetch=-1)


def test_rows_beside_a_loader_are_gathered_by_its_card(driver: Path) -> None:
    ds = leat.from_arrays(n=np.arange(12) % 5)
    rows = leat.device.rows(np.zeros((5, 2), np.float32), device="cpu")
    with pytest.raises(leat.UnsupportedError, match="gathered by cpu, and the batch is on cuda:0"):
        leat.Loader(ds, 4, stores={"x": (rows, "n")}, device="cuda")


class State(ctypes.Structure):
    """The first members of struct standin."""

    _fields_ = [
        ("fails", ctypes.c_char_p),
        *((name, ctypes.c_int) for name in ("code", "cards", "driver_version", "architecture")),
        *((name, ctypes.c_bool) for name in ("refuses_writable", "later")),
        ("slow_ms", ctypes.c_int),
    ]


def standin(driver: Path) -> tuple[Any, Any]:
    """Its library, and its state."""
    library = ctypes.CDLL(str(driver))
    library.standin_state.restype = ctypes.POINTER(State)
    return library, library.standin_state().contents


def done(library: Any) -> None:
    """Has the card do all that it was asked for."""
    library.cuCtxPushCurrent_v2(None)
    assert library.cuCtxSynchronize() == 0
    library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def test_images_of_open_size_are_copied_before_their_memory_is_used_again(driver: Path, photos: Any) -> None:
    outputs = {"image": leat.Out("image", [ops.Decode(), ops.RandomHorizontalFlip()], stack="list")}
    options: dict[str, Any] = {"batch_size": 4, "outputs": outputs, "shuffle": True, "yields": "tuple"}
    here, passes = leat.Loader(photos, **options), range(6)  # more batches than a window has
    wanted = [image.clone() for _ in passes for (images,) in here for image in images]
    library, state = standin(driver)
    for prefetch in (0, 2):
        there = leat.Loader(photos, **options, device="cuda", prefetch=prefetch, epochs=len(passes))
        state.later, state.slow_ms = True, 20  # the card does its work as late as it may
        try:
            seen = [image for _ in passes for (images,) in there for image in images]
            there.close()
            done(library)
        finally:
            state.later, state.slow_ms = False, 0
        assert all(torch.equal(a, b) for a, b in zip(seen, wanted, strict=True))


def test_batches_of_pixels_alone_among_those_of_photos_are_copied_before_their_memory_is_used_again(
    driver: Path, tmp_path: Path
) -> None:
    with leat.Writer(tmp_path / "p.leat", {"image": "image"}) as w:
        for i in range(48):
            smooth = np.full((60, 70, 3), 5 * i, np.uint8)
            w.add(image=save(smooth, "JPEG", progressive=i % 16 >= 4))
    ds, chain = leat.open(tmp_path / "p.leat"), [ops.Decode(), ops.CenterCrop(50), ops.Normalize(MEAN, STD)]
    options: dict[str, Any] = {"batch_size": 4, "outputs": {"image": chain}}
    wanted = [batch["image"].clone() for batch in leat.Loader(ds, **options)]
    library, state = standin(driver)
    for prefetch in (0, 2):
        there = leat.Loader(ds, **options, device="cuda", prefetch=prefetch, epochs=2)
        state.later, state.slow_ms = True, 20
        try:
            seen = [batch["image"] for _ in range(2) for batch in there]
            assert there.stats()["device"]["photos"] == 24
            there.close()
            done(library)
        finally:
            state.later, state.slow_ms = False, 0
        assert all(torch.equal(a, b) for a, b in zip(seen, wanted * 2, strict=True))


def test_after_an_error_the_next_photos_wait_until_the_card_has_what_it_was_sent(driver: Path, fast: Any) -> None:
    options: dict[str, Any] = {"batch_size": 8, "outputs": {"image": CHAINS["float32"]}, "shuffle": True}
    wanted = leat.Loader(fast, **options).batch_at(0, 3)
    library, state = standin(driver)
    with leat.Loader(fast, **options, device="cuda", prefetch=0) as there:
        state.later = True  # which the stand-in ends with, if what it has still to copy changes
        state.fails, state.code = b"cuLaunchKernel", 1
        try:
            with pytest.raises(OSError, match="does not decode photos"):
                there.batch_at(0, 1)
            state.fails = None
            found = there.batch_at(0, 3)
            done(library)
        finally:
            state.later, state.fails = False, None
        same(found, wanted)


def test_threads_may_share_an_iterator(driver: Path, photos: Any) -> None:
    outputs = {"image": CHAINS["gray"], "label": []}
    for _ in range(5):
        there = leat.Loader(photos, 3, outputs=outputs, device="cuda", epochs=1)
        batches, found = iter(there), list[int]()

        def read(batches: Any = batches, found: list[int] = found) -> None:
            for batch in batches:
                found.extend(batch["label"].tolist())

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == list(range(45))
        here = leat.Loader(photos, 3, outputs={"image": CHAINS["gray"][:-1], "label": []})
        list(here)
        assert there.stats()["bytes"] == here.stats()["bytes"]  # as they are in the host's memory


def test_memory_that_is_not_pinned_is_said_as_the_loader_opens(driver: Path, photos: Any) -> None:
    _, state = standin(driver)
    state.fails, state.code = b"cuMemHostRegister_v2", 2
    try:
        with pytest.raises(leat.OutOfMemoryError, match="ulimit -l"):
            leat.Loader(photos, 4, device="cuda")
    finally:
        state.fails = None


def test_outputs_go_into_tensors_of_the_users() -> None:
    batch = next(iter(leat.Loader(leat.from_arrays(x=np.ones((8, 3), np.float32), y=np.arange(8)), 4)))
    x = torch.zeros(4, 3)
    moved = batch.to("cpu", out={"x": x})
    assert moved["x"] is x and x.sum() == 12 and moved["y"].tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"out\['x'\] is torch.float32 of shape \(3, 3\)"):
        batch.to("cpu", out={"x": torch.zeros(3, 3)})
    with pytest.raises(ValueError, match=r"out\['x'\] is on meta, and the batch goes to cpu"):
        batch.to("cpu", out={"x": torch.empty(4, 3, device="meta")})
    with pytest.raises(ValueError, match=r"out\['x'\] is ndarray, and no tensor"):
        batch.to("cpu", out={"x": x.numpy()})
    with pytest.raises(KeyError):
        batch.to("cpu", out={"z": x})


def test_nothing_of_a_card_is_left_behind(driver: Path, photos: Any) -> None:
    kept = []
    for _ in range(3):
        with leat.Loader(photos, 8, outputs={"image": CHAINS["float32"]}, device="cuda") as there:
            kept += [batch["image"] for batch, _ in zip(there, range(2), strict=False)]
    wanted = leat.Loader(photos, 8, outputs={"image": CHAINS["float32"]}).batch_at(0, 1)["image"]
    assert all(torch.equal(image, wanted) for image in kept[1::2])


def test_trainings_of_a_card_get_their_batches_from_one_copy_there(driver: Path, photos: Any, tmp_path: Path) -> None:
    outputs = {"image": CHAINS["float32"], "label": [], "tokens": [], "text": []}
    options: dict[str, Any] = {"batch_size": 9, "shuffle": True, "seed": 2, "outputs": outputs, "framework": "torch"}
    wanted = {int(i): b for b in leat.Loader(photos, **options) for i in b.ids for b in [b]}
    with leat.Port(leat.Loader(photos, **options), "shared", device="cuda:0", folder=tmp_path / "ports") as served:
        # the port's batches; parts of one; of several, which are put together from the host's memory; on another card
        asked = [(9, 0), (9, 0), (3, 0), (6, 0), (9, 1)]
        running = [
            run_reader(tmp_path / "ports", tmp_path / f"{k}.pt", size, card, driver)
            for k, (size, card) in enumerate(asked)
        ]
        assert [reader.wait(120) for reader in running] == [0] * len(asked)
        told = served.stat()["device"]
        with pytest.raises(leat.UnsupportedError, match="serves a card, which makes values of the bytes of 'image'"):
            leat.attach("shared", folder=tmp_path / "ports")
        own = leat.attach("shared", outputs={"label": []}, start="beginning", folder=tmp_path / "ports")
        own.set_epoch(0)
        assert sum(len(batch["label"]) for batch in own) == 45
    assert told["failed"] == 0 and told["batches"] >= 5
    for k, (size, card) in enumerate(asked):
        stats = check_read(tmp_path / f"{k}.pt", size, wanted)
        pixels = 45 * 24 * 24 * 3
        if card or size == 6:
            assert stats["bytes"] > pixels * (1 if card else 0.2)
        else:  # the card's memory: ids and offsets alone came from here
            assert stats["shared_bytes"] >= pixels and stats["bytes"] < pixels / 4


def test_ports_of_a_card_may_have_what_their_budgets_are_together(driver: Path) -> None:
    def budget(mirrors: Any) -> int:
        return int(json.loads(mirrors.stats())["budget_bytes"])

    one = _leat.DeviceMirrors.open(0, 1 << 30)
    before = budget(one)  # ports of earlier tests may still be there
    two, three = _leat.DeviceMirrors.open(0, 2 << 30), _leat.DeviceMirrors.open(0, 1 << 63)
    assert budget(one) == budget(two) > before + (2 << 30)
    del three
    assert budget(one) == budget(two) == before + (2 << 30)
    del two
    assert budget(one) == before


def test_a_training_that_is_killed_holds_nothing_on_the_card(driver: Path, photos: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 9, "outputs": {"image": CHAINS["bytes"]}, "framework": "torch"}
    with leat.Port(leat.Loader(photos, **options), "killed", device="cuda:0", folder=tmp_path / "ports") as served:
        for _ in range(3):
            with run_reader(tmp_path / "ports", None, 9, 0, driver, "killed") as reader:
                assert reader.stdout is not None and reader.stdout.readline() == b"1\n"
                reader.kill()
        used = [served.stat()["device"]["most_used_bytes"]]
        with leat.attach("killed", start="beginning", folder=tmp_path / "ports", framework="torch") as last:
            last.set_epoch(3)
            assert sum(batch.size for batch in last) == 45
        used.append(served.stat()["device"]["most_used_bytes"])
    assert used[1] <= 2 * used[0]

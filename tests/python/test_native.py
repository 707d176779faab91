"""Functions of the user's on the library's threads: of a C library, of numba, of ctypes."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import pickle
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat
from leat import ops, program

FLAT = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint64
)

SOURCE = """
#include <leat/leat.h>
#include <stdio.h>
#include <string.h>

/* out = in * numbers[0], of float32. */
int scale(struct leat_native_call *call)
{
    for (uint64_t i = 0; i < call->in_type->elements; i++)
        ((float *)call->out)[i] = ((const float *)call->in)[i] * (float)call->numbers[0];
    return 0;
}

/* The sample ids 3, 13, 23 ... are refused. */
int refuse_threes(struct leat_native_call *call)
{
    memcpy(call->out, call->in, call->in_type->bytes);
    if (call->sample % 10 != 3)
        return 0;
    snprintf(call->message, call->message_room, "%lld ends in 3", (long long)call->sample);
    return 42;
}

/* The text of the arguments, cut to the room. */
int words(struct leat_native_call *call)
{
    uint64_t n = call->text_bytes < call->out_type->bytes ? call->text_bytes : call->out_type->bytes;
    memcpy(call->out, call->text, n);
    return 0;
}

int key(struct leat_native_call *call)
{
    memcpy(call->out, &call->key, sizeof call->key);
    return 0;
}

int32_t negate(const void *in, void *out, int64_t n_in, int64_t n_out, uint64_t key)
{
    for (int64_t i = 0; i < n_in; i++)
        ((float *)out)[i] = -((const float *)in)[i];
    return n_in == n_out ? 0 : 1;
}

static void __attribute__((constructor)) loaded(void)
{
    const char *path = getenv("LEAT_TEST_LOADED");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file)
        fclose(file);
}
"""


def compile_library(source: Path, target: Path) -> str:
    compiler = shlex.split(os.environ.get("CC") or shutil.which("cc") or "gcc")
    subprocess.run([*compiler, "-O2", "-shared", "-fPIC", f"-I{leat.get_include()}", source, "-o", target], check=True)
    return str(target)


@pytest.fixture(scope="session")
def library(folder: Path) -> str:
    source = folder / "functions.c"
    source.write_text("#include <stdlib.h>\n" + SOURCE)
    return compile_library(source, folder / "libfunctions.so")


@pytest.fixture(scope="session")
def numba() -> Any:
    if os.environ.get("LEAT_REQUIRE_TORCH"):  # where everything for the tests must be there
        return importlib.import_module("numba")
    return pytest.importorskip("numba")


def first(path: Path, outputs: Any, **options: Any) -> Any:
    with leat.Loader(leat.open(path), 5, outputs=outputs, framework="numpy", **options) as loader:
        return loader.batch_at(0, 0)


# ---- of a C library --------------------------------------------------------------------------------------------------


def test_a_c_function_runs_among_native_operators(records: Path, library: str) -> None:
    chain = [ops.Normalize(1, 2), ops.Native(f"{library}:scale", args=3), ops.ToDtype("float64")]
    x = first(records, {"x": chain})["x"]
    assert x.dtype == np.float64
    np.testing.assert_array_equal(x, (np.repeat(np.arange(5.0)[:, None], 3, 1) - 1) / 2 * 3)


def test_a_function_of_a_library_can_have_the_flat_form(records: Path, library: str) -> None:
    x = first(records, {"x": [ops.Native(f"{library}:negate", call="flat")]})["x"]
    np.testing.assert_array_equal(x, -np.repeat(np.arange(5.0)[:, None], 3, 1))


@pytest.mark.parametrize(
    "args, text",
    [
        (None, ""),
        ("plain", "plain"),
        ([1, 2.5], "[1,2.5]"),
        (7, "7"),
        ({"a": [None, "ü"]}, '{"a":[null,"ü"]}'),
        (True, "true"),
        ([], "[]"),
    ],
)
def test_arguments_arrive_as_text(records: Path, library: str, args: Any, text: str) -> None:
    op = ops.Native(f"{library}:words", args, leat.field("uint8", (32,)))
    found = first(records, {"label": op})["label"][0]
    assert bytes(found).rstrip(b"\0").decode() == text


def test_the_random_key_is_the_rows_and_the_operators(records: Path, library: str) -> None:
    def keys(**options: Any) -> list[int]:
        op = [ops.Native(f"{library}:key", returns=leat.field("uint64"))]
        found = first(
            records,
            {
                "a": leat.Out("label", op),
                "b": leat.Out("label", [ops.Native(f"{library}:key", returns=leat.field("uint64"))]),
            },
            **options,
        )
        return [*found["a"].tolist(), *found["b"].tolist()]

    assert len(set(keys())) == 10
    assert keys() == keys(num_threads=1) != keys(seed=1)


def test_the_error_of_a_function_names_operator_sample_and_its_own_words(records: Path, library: str) -> None:
    with pytest.raises(
        leat.BrokenSampleError,
        match=r"Native\(libfunctions.so:refuse_threes\) in output 'x' failed with 42: 3 ends in 3",
    ) as e:
        first(records, {"x": [ops.Native(f"{library}:refuse_threes")]})
    assert (e.value.sample, e.value.code) == (3, "LEAT_E_OPERATOR")


def test_a_row_of_packed_documents_that_a_function_refuses_is_not_called_by_a_name(
    tmp_path: Path, library: str
) -> None:
    with leat.Writer(tmp_path / "a.leat", {"tokens": leat.field("uint16", (None,)), "name": "str"}) as w:
        for i in range(40):
            w.add(tokens=np.full(8, i, np.uint16), name=f"document {i}")
    rows = leat.pack_rows(leat.open(tmp_path / "a.leat"), length=8)
    refused = {"tokens": [ops.Native(f"{library}:refuse_threes")]}
    with leat.Loader(rows, 40, outputs=refused, on_error="skip", framework="numpy") as loader:
        batch = loader.batch_at(0, 0)
    assert batch["tokens"][:, 0].tolist() == [i for i in range(40) if i % 10 != 3]
    assert [e.planned for e in batch.errors] == [3, 13, 23, 33]
    assert not any("document" in e.reason for e in batch.errors)


def test_a_photo_that_a_function_refuses_is_not_called_broken_elsewhere(photos: Path, library: str) -> None:
    data = leat.open(photos)
    chain = [ops.Decode(), ops.CenterCrop(8)]
    refused = {"image": [*chain, ops.Native(f"{library}:refuse_threes")]}
    with leat.Loader(data, len(data), outputs=refused, on_error="skip", framework="numpy") as loader:
        assert loader.batch_at(0, 0).ids.tolist() == [i for i in range(len(data)) if i % 10 != 3]
    with leat.Loader(data, len(data), outputs={"image": chain}, framework="numpy") as loader:
        assert len(loader.batch_at(0, 0)["image"]) == len(data)


def test_a_state_goes_on_with_the_same_library_elsewhere_and_notes_another_function(
    records: Path, library: str, tmp_path: Path
) -> None:
    def loader(op: ops.Native) -> leat.Loader:
        return leat.Loader(leat.open(records), 5, outputs={"x": [op]}, framework="numpy")

    first = loader(ops.Native(f"{library}:scale", args=2))
    next(iter(first))
    state = first.state_dict()
    kinds = {}
    for op in (
        ops.Native(f"{shutil.copy(library, tmp_path)}:scale", args=2),
        ops.Native(f"{library}:negate", call="flat"),
    ):
        again = loader(op)
        again.load_state_dict(state)
        kinds[op.function] = [entry["kind"] for entry in again.state_dict()["log"]]
    assert [k.count("resume") for k in kinds.values()] == [0, 1]


@pytest.mark.parametrize(
    "name, error, says",
    [
        ("./nowhere.so:f", FileNotFoundError, "nowhere.so"),
        ("nowhere.so:f", OSError, "./nowhere.so"),
        ("libc.so.6:leat_no_such", ValueError, "no symbol 'leat_no_such'"),
    ],
)
def test_a_library_or_symbol_that_is_not_there_is_named(
    records: Path, name: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        first(records, {"x": [ops.Native(name)]})


# ---- text never runs anything ----------------------------------------------------------------------------------------


def test_a_saved_program_is_read_only_where_native_code_is_allowed(
    records: Path, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "loaded"
    monkeypatch.setenv("LEAT_TEST_LOADED", str(marker))
    fresh = shutil.copy(library, tmp_path / "libfresh.so")
    op = ops.Native(f"{fresh}:scale", args=[2], returns=leat.field("float32", (3,)), name="twice")
    text = leat.program_to_json({"x": [op]})
    with pytest.raises(ValueError, match="allow_native=True"):
        leat.program_from_json(text)
    again = leat.program_from_json(text, allow_native=True)
    assert again["x"].chain == [op]
    assert leat.program_to_json(again) == text
    assert pickle.loads(pickle.dumps(op)) == op
    assert not marker.exists(), "the library was loaded before a Loader was opened"
    assert first(records, again)["x"][4].tolist() == [8, 8, 8]
    assert marker.exists()


def test_the_text_of_a_program_holds_no_address(records: Path, library: str) -> None:
    text, functions = program.compiled_program({"x": [ops.Native(f"{library}:scale", args=2)]})
    assert json.loads(text)["operators"]["op0"]["function"] == 0
    assert str(functions[0][0]) not in text
    assert str(Path(library).parent) not in text


# ---- of numba and ctypes ---------------------------------------------------------------------------------------------


def test_a_numba_function_runs_on_photos(photos: Path, numba: Any) -> None:
    @numba.cfunc("int32(CPointer(uint8), CPointer(float32), int64, int64, uint64)")
    def grey(source: Any, target: Any, n_in: int, n_out: int, key: int) -> int:
        rgb = numba.carray(source, (16, 24, 3))
        out = numba.carray(target, (16, 24))
        for y in range(16):
            for x in range(24):
                out[y, x] = (rgb[y, x, 0] + 2.0 * rgb[y, x, 1] + rgb[y, x, 2]) / 4
        return 0

    chain = [ops.Decode(), ops.Resize((16, 24))]
    rgb = first(photos, {"image": chain})["image"].astype(np.float32)
    found = first(photos, {"image": [*chain, ops.Native(grey, returns=leat.field("float32", (16, 24)))]})["image"]
    np.testing.assert_array_equal(found, (rgb[:, 0] + 2 * rgb[:, 1] + rgb[:, 2]) / 4)


def test_a_numba_function_stays_alive_with_its_loader(records: Path, numba: Any) -> None:
    def double() -> ops.Native:
        @numba.cfunc("int32(CPointer(float32), CPointer(float32), int64, int64, uint64)")
        def function(source: Any, target: Any, n_in: int, n_out: int, key: int) -> int:
            for i in range(n_in):
                target[i] = 2 * source[i]
            return 0

        return ops.Native(function)

    loader = leat.Loader(leat.open(records), 5, outputs={"x": [double()]}, framework="numpy")
    for _ in range(3):
        assert [batch["x"][0, 0] for batch in loader] == [2.0 * i for i in range(0, 100, 5)]


def test_the_pointers_of_a_numba_function_are_checked_against_the_chain(records: Path, numba: Any) -> None:
    @numba.cfunc("int32(CPointer(uint8), CPointer(float64), int64, int64, uint64)")
    def function(source: Any, target: Any, n_in: int, n_out: int, key: int) -> int:
        return 0

    with pytest.raises(leat.ProgramError, match="takes uint8 values"):
        first(records, {"x": [ops.Native(function)]})
    with pytest.raises(leat.ProgramError, match="writes float64"):
        first(records, {"x": [ops.ToDtype("uint8"), ops.Native(function, returns=leat.field("float32", (3,)))]})


def test_a_numba_function_has_no_json_form_and_says_so(numba: Any) -> None:
    @numba.cfunc("int32(voidptr, voidptr, int64, int64, uint64)")
    def function(source: Any, target: Any, n_in: int, n_out: int, key: int) -> int:
        return 0

    op = ops.Native(function)
    for write in (lambda: leat.program_to_json({"x": [op]}), lambda: pickle.dumps(op)):
        with pytest.raises(ValueError, match="lib.so:symbol"):
            write()
    with pytest.raises(TypeError, match="numba.cfunc"):
        ops.Native(numba.njit(lambda x: x))
    with pytest.raises(TypeError, match="returns c_double"):
        ops.Native(numba.cfunc("float64(float64)")(lambda x: x))


def test_a_ctypes_function_and_an_address_are_taken(records: Path, library: str) -> None:
    loaded = ctypes.CDLL(library)
    address = ctypes.cast(loaded.negate, ctypes.c_void_p).value
    assert address
    loaded.scale.argtypes, loaded.scale.restype = [ctypes.c_void_p], ctypes.c_int
    for op, factor in [
        (ops.Native(FLAT(address)), -1),
        (ops.Native(address, call="flat"), -1),
        (ops.Native(loaded.negate, call="flat"), -1),
        (ops.Native(loaded.scale, args=4), 4),
    ]:
        assert first(records, {"x": [op]})["x"][2].tolist() == [2.0 * factor] * 3


@pytest.mark.parametrize(
    "make, error, says",
    [
        (lambda: ops.Native(lambda x: x), TypeError, "leat.ops.Map"),
        (lambda: ops.Native(FLAT(lambda *a: 0)), TypeError, "leat.ops.Map"),
        (lambda: ops.Native(4096), TypeError, "call='structure' or call='flat'"),
        (lambda: ops.Native(-1, call="flat"), TypeError, "address"),
        (lambda: ops.Native(True, call="flat"), TypeError, "not True"),
        (lambda: ops.Native(None), TypeError, "not None"),
        (lambda: ops.Native(ctypes.CDLL(None).strlen), TypeError, "argtypes"),
        (lambda: ops.Native(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(4096)), TypeError, "returns c_double"),
        (lambda: ops.Native(FLAT(4096), call="structure"), TypeError, "Native calls"),
        (lambda: ops.Native(FLAT(4096), args=1), ValueError, "args"),
        (lambda: ops.Native(FLAT(0)), TypeError, "null"),
        (lambda: ops.Native("library.so"), ValueError, "lib.so:symbol"),
        (lambda: ops.Native("library.so:not a name"), ValueError, "lib.so:symbol"),
        (lambda: ops.Native("a.so:f", call="fast"), ValueError, "'structure'"),
        (lambda: ops.Native("a.so:f", args=1, call="flat"), ValueError, "args"),
        (lambda: ops.Native("a.so:f", args=object()), TypeError, "JSON"),
        (lambda: ops.Native("a.so:f", args=float("nan")), ValueError, "JSON"),
        (lambda: ops.Native("a.so:f", returns="float32"), TypeError, "leat.field"),
        (lambda: ops.Native("a.so:f", returns=leat.field("float32", (None, 3))), TypeError, "fixed shape"),
        (lambda: ops.Native("a.so:f", returns=leat.field("bytes")), TypeError, "leat.field"),
    ],
)
def test_what_is_no_compiled_function_is_refused(make: Callable[[], object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()

"""`leat prompts`. Called by leat.commands.main, which cli/python.c starts."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ExistsError
from ..files import whole

if TYPE_CHECKING:
    from ..data.dataset import Dataset
    from ..data.prompts import Prompts
    from ..text.prompt_files import Records

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
UNITS |= {f"{unit}i": 1024**k for k, unit in enumerate("KMGT", 1)}
KV_BYTES = 131072  #: keys and values of a token: 32 layers of 8 heads of 128 numbers of two bytes each


def is_records(path: str) -> bool:
    return path.lower().endswith((".jsonl", ".ndjson", ".json", ".csv", ".jsonl.gz", ".jsonl.zst", ".csv.gz"))


def main(options: Mapping[str, str]) -> int:
    """Groups prompts, restores results, or writes what is missing. `options`: as the command line has read them."""
    paths = [value for name, value in options.items() if name == "src" or name.startswith("src ")]
    out = options.get("out")
    if out is not None and os.path.exists(out) and "overwrite" not in options:
        raise ExistsError(f"{out} exists: --overwrite replaces it")
    if "restore" in options or "resume" in options:
        return _results(paths, options)
    if len(paths) > 1:
        raise ValueError(f"{paths[1]}: results go with --restore or --resume")
    return _plan(paths[0], options)


# ---- results ---------------------------------------------------------------------------------------------------------


def _results(paths: list[str], options: Mapping[str, str]) -> int:
    from ..text.prompt_files import Records, Results, placed

    src, *files = paths
    name = "restore" if "restore" in options else "resume"
    if "restore" in options and "resume" in options:
        raise ValueError("--restore writes results, and --resume prompts without one: give one of them")
    if "out" not in options:
        raise ValueError(f"--{name} writes to a file: give --out")
    if not files:
        raise ValueError(f"--{name} takes results: leat prompts SRC RESULTS... --{name} --out FILE")
    pack = None if is_records(src) else src
    if pack is not None:
        src = options.get("plan", src)
    if not is_records(src):
        raise ValueError(f"the prompts of {src} were written to a file of JSON lines: give that with --plan")
    with contextlib.ExitStack() as opened:

        def records(path: str, cut: bool = False) -> Records:
            found = Records(path, cut)
            opened.callback(found.close)
            return found

        prompts = records(src)
        plan = records(options["plan"]) if "plan" in options else None
        results = Results(prompts, plan, [records(path, cut=True) for path in files])
        for file in results.files:
            if file.was_cut is not None:
                said = f"the last line of {file.path}, from byte {file.was_cut} on, is cut off and left out"
                print(f"leat prompts: {said}{'; if it is whole, end it' * file.csv}", file=sys.stderr)
        if results.failed:
            said = f"{results.failed:,} results say that their request failed: they count as none"
            print(f"leat prompts: {said}", file=sys.stderr)
        if name == "restore":
            headers = [file.header for file in results.files if file.header]
            order = None if pack is None else _order_of(pack, prompts)
            _write(options["out"], headers[:1], results.in_order(order))
            _say(options, f"{options['out']}: {len(prompts):,} results in the order of {paths[0]}")
            return 0
        missing = set(results.missing.tolist())
        if plan is None:
            rest: Iterable[bytes] = (raw for i, raw in enumerate(prompts.raws()) if i in missing)
        else:
            order = placed(plan, prompts).tolist()
            rest = (raw for i, raw in zip(order, plan.raws(), strict=True) if i in missing)
        _write(options["out"], [prompts.header] * prompts.csv, rest)
        _say(options, f"{options['out']}: {len(missing):,} of {len(prompts):,} prompts, which have no result yet")
    return 0


def _ids_of(ds: Dataset) -> list[str]:
    """The custom_id of each sample: that of the data set, or the position."""
    if "custom_id" in ds.schema:
        return [str(one) for one in ds.column("custom_id")]
    return [str(i) for i in range(len(ds))]


def _order_of(pack: str, plan: Records) -> list[int]:
    """The record of a plan that each sample of its pack is."""
    import leat

    from ..errors import BrokenSampleError

    where = {one: i for i, one in enumerate(plan.ids())}
    ids = _ids_of(leat.open(pack))
    for i, one in enumerate(ids):
        if one not in where:
            raise BrokenSampleError(f"{pack}: {plan.path} has no record with the custom_id {one!r}, of its sample {i}")
    if len(ids) != len(plan):
        raise BrokenSampleError(f"{plan.path} has {len(plan):,} records, and {pack} {len(ids):,} samples")
    return [where[one] for one in ids]


# ---- plans -----------------------------------------------------------------------------------------------------------


def _plan(src: str, options: Mapping[str, str]) -> int:
    from ..data.prompts import group_prompts

    if not any(name in options for name in ("out", "simulate")):
        raise ValueError("--out names the file to write, and --simulate says what a cache would save: give one of them")
    if not is_records(src):
        texts = [f"--{name}" for name in ("tokenizer", "template") if name in options]
        if texts:
            raise ValueError(
                f"{' and '.join(texts)}: {src} has tokens already, which are taken as they are. Tokens are made of the "
                "texts of a .jsonl or .csv file, or by leat pack --tokenizer"
            )
    cache = _cache(options["simulate"]) if "simulate" in options else None
    block = int(options.get("block", 1 if cache is None else cache[2]))
    with contextlib.ExitStack() as opened:
        records, ds, name, decode = _read(src, options, opened)
        line = _progress(options, "grouping", len(ds))
        try:
            show = None if line is None else lambda done, total: line.say(done * len(ds) // max(total, 1), 0, 0)
            found = group_prompts(ds, name, decode, block, int(options.get("seed", 0)), progress=show)
        finally:
            if line is not None:
                line.close()
        if "out" in options:
            _write_plan(options, records, ds, found)
    if cache is not None:
        _simulate(found, cache, block)
    return 0


def _progress(options: Mapping[str, str], verb: str, total: int) -> Any:
    from ..text.progress import Line

    return None if "quiet" in options else Line(verb, total, 0)


def _read(
    src: str, options: Mapping[str, str], opened: contextlib.ExitStack
) -> tuple[Records | None, Dataset, str, str | None]:
    """The records, if it is a file of them; their prompts as a data set; its fields of tokens, and of answers."""
    import leat

    from ..text.prompt_files import Records
    from ..text.prompts import Asking, of_records

    decode = options.get("decode")
    if not is_records(src):
        return None, leat.open(src), options.get("field", "tokens"), decode
    asking = Asking(options.get("tokenizer"), options.get("template"), options.get("field"), options.get("pattern"))
    records = Records(src)
    opened.callback(records.close)
    if "out" in options:
        is_csv = options["out"].lower().endswith(".csv")
        if records.csv != is_csv and (is_csv or is_records(options["out"])):
            form = "CSV" if records.csv else "JSON lines"
            raise ValueError(f"{options['out']}: the lines of {src} are written as they are, {form}: name it so")
        records.ids()  # two of one custom_id are told now, not when the results are there
    line = _progress(options, "reading", len(records))
    try:
        ds = of_records(records, asking, decode, None if line is None else lambda done: line.say(done, 0, 0))
    finally:
        if line is not None:
            line.close()
    return records, ds, "tokens", None if decode is None else "decode"


def _write_plan(options: Mapping[str, str], records: Records | None, ds: Dataset, found: Prompts) -> None:
    import leat

    from ..text.prompt_tree import groups_told, unit_of

    out, order = options["out"], found.order.tolist()
    if records is not None:
        _write(out, [records.header] * records.csv, (records.raw(i) for i in order))
    elif is_records(out):
        _write(out, [], _lines_of(options["src"], ds, order))
    else:
        fields = {name: field for name, field in found.schema.items() if not field.derived}
        with leat.Writer(out, fields, metadata=ds.metadata or None, overwrite=True) as writer:
            writer.write_dataset(found)
    unit = unit_of(found)
    _say(
        options,
        f"{out}: {len(found):,} prompts of {found.tokens[0]:,} {unit} in {groups_told(len(found.groups))}; with the "
        f"prefix of each computed once, {100 * found.saving:.1f}% of the {unit} are not computed (with those of any "
        f"depth, {100 * found.optimum:.1f}%)",
    )


def _lines_of(src: str, ds: Dataset, order: list[int]) -> Iterator[bytes]:
    """Samples as lines of JSON, each with a custom_id."""
    ids = _ids_of(ds)
    for i in order:
        sample = {name: _plain(value, f"{src}, sample {i}: field {name!r}") for name, value in ds[i].items()}
        yield json.dumps({**sample, "custom_id": ids[i]}, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _plain(value: Any, place: str) -> Any:
    """A value as JSON has it; of a number that is not finite, null."""
    import numpy as np

    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as e:
            raise ValueError(
                f"{place}: its byte {e.start} is no UTF-8, so it is no text of JSON: write a pack (--out FILE.leat)"
            ) from None
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not (finite := np.isfinite(value)).all():
            value = value.astype(object)
            value[~finite] = None
        return value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    raise TypeError(f"{place}: JSON has no {type(value).__name__}: write a pack (--out FILE.leat)")


def _write(path: str, headers: list[bytes], raws: Iterable[bytes]) -> None:
    with whole(path) as file:
        for header in headers:
            file.write(header if header.endswith(b"\n") else header + b"\n")
        for raw in raws:
            file.write(raw)


def _say(options: Mapping[str, str], text: str) -> None:
    if "quiet" not in options:
        print(text)


# ---- caches ----------------------------------------------------------------------------------------------------------


def _number(text: str, name: str) -> tuple[int, bool]:
    """A number, and whether it is one of bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]i?)?(B?)", text)
    if not found:
        raise ValueError(f"--simulate {name}={text}: a number such as 4GB, 512MiB, or of tokens 100000")
    unit = found[2] or ""
    return int(float(found[1]) * UNITS[unit]), bool(unit or found[3])


def _cache(text: str) -> tuple[str, int, int]:
    """The words of ``lru=4GB,block=16,kv=128KiB``: the size as it was given, in tokens, and the tokens of a block."""
    given = dict(part.partition("=")[::2] for part in text.split(","))
    if "lru" not in given or given.keys() - {"lru", "block", "kv"}:
        raise ValueError(
            f"--simulate {text}: a size, and what else is known: lru=4GB,block=16,kv=128KiB (bytes of the keys and "
            "values of a token)"
        )
    size, is_bytes = _number(given["lru"], "lru")
    kv, block = _number(given.get("kv", str(KV_BYTES)), "kv")[0], _number(given.get("block", "16"), "block")[0]
    if not kv or not block:
        raise ValueError(f"--simulate {text}: block and kv are above 0")
    return given["lru"], size // kv if is_bytes else size, block


def _simulate(found: Prompts, cache: tuple[str, int, int], grouped: int) -> None:
    """`grouped`: the tokens of a block that the prompts were grouped by."""
    from ..text.prompt_tree import unit_of

    name, tokens, block = cache
    unit = "tokens" if unit_of(found) == "tokens" else "bytes, each counted as a token"
    saved = found.simulate(tokens, block)
    print(f"a cache of {name} (lru, blocks of {block}, {tokens:,} tokens) saves of {found.tokens[0]:,} {unit}")
    for order, part in zip(("as they came", "sorted", "grouped"), saved, strict=True):
        print(f"  {order:12} {100 * part:5.1f}%")
    most = found.optimum if block == grouped else found.simulate(found.tokens[0], block).grouped  # all fit
    print(f"  {'at most':12} {100 * most:5.1f}%")


# ---- what is shared --------------------------------------------------------------------------------------------------


def shown(options: Mapping[str, str]) -> int:
    """`leat stats --prompts`: the tree of what prompts share."""
    from ..data.prompts import group_prompts
    from ..text.prompt_tree import told, tree

    with contextlib.ExitStack() as opened:
        given = {**options, "field": options["prompts"], "quiet": "yes"}
        if options["prompts"] == "auto":
            del given["field"]
        _, ds, name, _ = _read(options["src"], given, opened)
        if "where" in options:
            ds = ds.where(options["where"])
        found = group_prompts(ds, name)
        show: Callable[[Any], str] | None = None
        if "tokenizer" in options:
            from ..text.tokenizer import load

            show = load(options["tokenizer"]).decode
        made = tree(found, show)
        if "json" in options:
            json.dump(made, sys.stdout, indent=1)
            print()
        else:
            print(told(made, blocks="utf" in (sys.stdout.encoding or "").lower()))
    return 0

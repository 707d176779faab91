"""The examples of README.md and docs/ run as they stand, also where a process has 8 GB of address space (ulimit -v)."""

from __future__ import annotations

import contextlib
import difflib
import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_support import command, jpeg, make_folder
from PIL import Image
from script_support import python
from sequences_made import bgzf

import leat

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from loader_options import arguments, written  # noqa: E402  of tools/

LIMIT = 8 << 30
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    if "```python" in page.read_text()
)

# What the reader of an example has already.
GIVEN = """
import doctest, pathlib, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
import numpy as np
import torch
import leat

class tokenizer:
    encode = staticmethod(lambda text: np.frombuffer(text.encode(), np.uint8).astype(np.int64))

def png(array):
    import io
    from PIL import Image
    out = io.BytesIO()
    Image.fromarray(array).save(out, "PNG")
    return out.getvalue()

given = {{
    "tmp": pathlib.Path(), "path": "records.leat", "checkpoint": {{}},
    "compose": torch.nn.Sequential(), "model": torch.nn.Conv2d(3, 8, 1),
    "photos": leat.open("photos.leat"), "ds": leat.open("captions.leat"), "train_step": lambda x, y: x.sum(),
    "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225), "tokenizer": tokenizer,
    "jpeg": open("photo.jpg", "rb").read(), "png": png(np.zeros((480, 640), np.uint8)),
    "boxes": [[10, 10, 600, 400], [100, 50, 200, 90]], "labels": [3, 7],
    "detect": lambda images: [(torch.ones(1, 4), torch.ones(1), torch.zeros(1, dtype=torch.int64))] * len(images),
}}
{numba}
"""
RUN = """
flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
for name, text in {blocks!r}:
    if ">>>" in text:
        example = doctest.DocTestParser().get_doctest(text, given, name, name, 0)
        runner = doctest.DocTestRunner(optionflags=flags)
        if runner.run(example, clear_globs=False).failed:
            sys.exit(1)
        given |= example.globs
    else:
        exec(compile(text, name, "exec"), given)
"""


def make_events(root: Path) -> None:
    """Files of events, in each form."""
    r = np.random.default_rng(1)
    rows = np.column_stack((r.integers(1, 40, (300, 2)), np.arange(300) * 60))
    np.savetxt(root / "CollegeMsg.txt", rows, fmt="%d")
    jodie = "".join(f"{a},{b},{t}.0,0,0.5\n" for a, b, t in rows)
    (root / "wikipedia.csv").write_text(
        "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n" + jodie
    )
    tgn = "".join(f"{i},{a},{b},{t}.0,0.0,{i + 1}\n" for i, (a, b, t) in enumerate(rows))
    (root / "ml_wikipedia.csv").write_text(",u,i,ts,label,idx\n" + tgn)
    np.save(root / "ml_wikipedia.npy", r.normal(size=(301, 4)))


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the pages name."""
    root = tmp_path_factory.mktemp("docs")
    make_folder(root / "photos", {"cat": 40, "dog": 56}, (48, 40), jpeg)
    shutil.copytree(root / "photos", root / "photos" / "train", ignore=shutil.ignore_patterns("train"))
    photos = [p.read_bytes() for p in sorted((root / "photos" / "train").rglob("*.jpg"))]
    (root / "photo.jpg").write_bytes(jpeg(640, 480))
    for folder in ("images", "labels"):
        (root / "scenes" / folder).mkdir(parents=True)
    (root / "scenes/images/a.jpg").write_bytes((root / "photo.jpg").read_bytes())
    Image.fromarray(np.arange(480 * 640, dtype=np.uint32).reshape(480, 640).astype(np.uint8) % 8).save(
        root / "scenes/labels/a.png"
    )
    segments = [{"id": 1, "category_id": 1, "bbox": [0, 0, 640, 480]}]
    panoptic = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 640, "height": 480}],
        "annotations": [{"image_id": 1, "file_name": "a.png", "segments_info": segments}],
        "categories": [{"id": 1, "name": "sky"}],
    }
    (root / "scenes/panoptic.json").write_text(json.dumps(panoptic))
    instances = {**panoptic, "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [9, 9, 99, 99]}]}
    for part in ("train2017", "val2017"):
        (root / part).mkdir()
        (root / part / "a.jpg").write_bytes((root / "photo.jpg").read_bytes())
        (root / f"instances_{part}.json").write_text(json.dumps(instances))
    (root / "scenes/panoptic").mkdir()
    Image.new("RGB", (640, 480), (1, 0, 0)).save(root / "scenes/panoptic/a.png")
    with leat.Writer(root / "photos.leat", {"image": "image", "label": "int64"}, classes=["cat", "dog"]) as w:
        for i, photo in enumerate(photos):
            w.add(image=photo, label=int(i >= 40))
    with leat.Writer(root / "captions.leat", {"image": "image", "label": "int64", "caption": "str"}) as w:
        for i, photo in enumerate(photos):
            w.add(image=photo, label=i % 2, caption="a photo " * (i % 5))
    with leat.Writer(root / "corpus.leat", {"tokens": leat.field("uint16", (None,))}) as w:
        for i in range(300):
            w.add(tokens=np.arange(i, dtype=np.uint16))
    records = [{"text": f"document {i}", "meta": {"domain": ("code", "books")[i % 2]}} for i in range(40)]
    lines = "".join(json.dumps(record) + "\n" for record in records).encode()
    (root / "corpus.jsonl").write_bytes(lines)
    (root / "book.txt").write_bytes(b"One paragraph.\n\nAnother one,\nof two lines.\n")
    leat.write_megatron(leat.open(root / "corpus.leat"), root / "corpus_text_document")
    for folder in ("shards", "out"):
        (root / folder).mkdir()
    with contextlib.suppress(ImportError):  # the page of text then fails, and says which file is not there
        import pyarrow as pa

        for i in range(10):
            (root / "shards" / f"part-{i:03d}.jsonl.zst").write_bytes(pa.compress(lines, "zstd", asbytes=True))
        import pyarrow.parquet

        names = [photo["name"] for photo in leat.open(root / "photos" / "train")]
        about = {
            "name": names[::-1],
            "year": [2018 + i % 5 for i in range(len(names))],
            "caption": ["a pet"] * len(names),
        }
        pyarrow.parquet.write_table(pa.table(about), root / "about.parquet")
    r = np.random.default_rng(0)
    proteins = [r.choice(np.frombuffer(b"LAGVSERTIDPKQNFYMHWC", np.uint8), n) for n in r.integers(20, 1500, 60)]
    (root / "proteins.fasta").write_bytes(b"".join(b">p%d\n%s\n" % (i, p.tobytes()) for i, p in enumerate(proteins)))
    make_events(root)
    bases = r.choice(np.frombuffer(b"ACGTN", np.uint8), (10, 9000))
    genome = b"".join(b">c%d\n%s\n" % (i, b.tobytes()) for i, b in enumerate(bases))
    (root / "genome.fa.gz").write_bytes(bgzf(genome)[0])
    for i in range(4):
        (root / f"reads_{i:02d}.fastq.gz").write_bytes(gzip.compress(b"@r\nACGT\n+\n!!!!\n" * 9))
    with contextlib.suppress(ImportError):
        import scipy.sparse
        from cells_support import write_h5ad

        counts = scipy.sparse.random(600, 40, 0.3, "csr", "float32", r)
        write_h5ad(root / "pbmc.h5ad", counts, obs={"cell_type": (np.arange(600) % 2, ["B", "T"])})
    with leat.Writer(root / "records.leat", {"x": leat.field("float32", (3,)), "label": "int64"}) as w:
        w.write_batch({"x": np.repeat(np.arange(100, dtype=np.float32)[:, None], 3, 1), "label": np.arange(100) % 10})
    images = np.random.default_rng(0).integers(0, 256, (256, 28, 28), np.uint8)
    for name, code, array in (("images-idx3", 3, images), ("labels-idx1", 1, images[:, 0, 0] % 10)):
        header = struct.pack(f">HBB{code}I", 0, 8, code, *array.shape)
        (root / f"train-{name}-ubyte.gz").write_bytes(gzip.compress(header + array.tobytes()))
    return root


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: str, workplace: Path) -> None:
    pytest.importorskip("torch")
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
    text = "".join(blocks)
    numba = ""
    if "numba." in text:
        pytest.importorskip("numba")
        numba = "import numba\ngiven['numba'] = numba"
    if "libnative_op.so" in text:
        compiler = shutil.which("cc") or pytest.skip("no C compiler")
        flags = ["-shared", "-fPIC", "-I", leat.get_include(), "-o", workplace / "libnative_op.so"]
        subprocess.run([compiler, ROOT / "examples" / "native_op.c", *flags], check=True)
    named = [(f"{page}, example {i + 1}", block) for i, block in enumerate(blocks)]
    limit = -1 if page == "docs/ports.md" else LIMIT  # a port reserves its memory at once
    code = GIVEN.format(limit=limit, numba=numba) + RUN.format(blocks=named)
    done = python("-c", code, cwd=workplace)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", ["docs/quickstart.md", "docs/cli.md", "docs/datasets.md", "docs/events.md"])
def test_the_commands_of_a_page_run(page: str, workplace: Path, tmp_path: Path) -> None:
    """The lines that begin with the command, in their order, as a shell runs them; what they measure is short."""
    place = shutil.copytree(workplace / "photos", tmp_path / "work" / "photos").parent
    for folder in ("train2017", "instances_train2017.json"):
        (place / folder).symlink_to(workplace / folder)
    for folder in ("images", "labels"):
        (place / folder).mkdir()
    shutil.copy(workplace / "photo.jpg", place / "images" / "a.jpg")
    image, category = {"id": 1, "file_name": "a.jpg", "width": 640, "height": 480}, {"id": 1, "name": "cat"}
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [9, 9, 99, 99], "area": 9801, "iscrowd": 0}
    coco = {"images": [image], "annotations": [box], "categories": [category]}
    (place / "instances.json").write_text(json.dumps(coco))
    (place / "labels" / "a.txt").write_text("0 0.5 0.5 0.2 0.2\n")
    (place / "names.txt").write_text("cat\n")
    shutil.copy(workplace / "corpus.jsonl", place)
    shutil.copy(workplace / "proteins.fasta", place)
    shutil.copy(workplace / "CollegeMsg.txt", place)
    (place / "reads.fastq").write_bytes(b"@r\nACGT\n+\n!!!!\n" * 9)
    (place / "genome.fa").write_bytes(b">c\n" + (b"ACGTACGTAC" * 6 + b"\n") * 17_000)
    with leat.Writer(place / "web.leat", {"text": "str", "domain": "str", "language": "str", "length": "int64"}) as w:
        for i in range(40):
            w.add(text=f"document {i}", domain=("code", "books")[i % 2], language="en", length=190 + i)
    (place / "train.py").write_text(
        "import leat\nds = leat.open('web.leat')\n"
        "mix = leat.Mix({'a': (ds[:20], 0.5), 'b': (ds[20:], 0.5)}, exhausted='repeat')\n"
    )
    web = leat.open(place / "web.leat")
    run = leat.Loader(
        leat.Mix({"a": (web[:20], 0.5), "b": (web[20:], 0.5)}, exhausted="repeat"),
        batch_size=4,
        shuffle=True,
        seed=7,
        log_dir=place / "run",
    )
    run.set_mixture({"a": 0.25, "b": 0.75}, at=(0, 5))
    (tmp_path / "leat").symlink_to(command())
    lines = re.findall(r"^    (leat .*?)(?:  +#.*)?$", (ROOT / page).read_text(), re.M)
    assert lines
    for line in lines:
        if line.startswith(("leat bench", "leat doctor")):
            line = re.sub(r" --seconds \S+", "", line) + " --seconds 0.05"
        shell = f"ulimit -v {LIMIT >> 10}; {line}"
        env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(shell, shell=True, cwd=place, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def test_signature_docstring_and_page_of_the_loader_are_as_its_options_are() -> None:
    for path, made in written().items():
        lines = "\n".join(difflib.unified_diff(path.read_text().splitlines(), made.splitlines(), n=0))
        assert not lines, f"{path}: run tools/loader_options.py\n{lines}"


def test_the_library_is_told_each_option_of_the_loader_that_it_takes() -> None:
    told = leat.Loader(leat.from_arrays(x=np.arange(4)), 2, framework="numpy")._options
    assert {argument.name for argument in arguments() if argument.told} - told.keys() == set()


def test_the_core_is_read_in_an_hour() -> None:
    """The files of the page's section, with their headers, are as few lines as it says."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.split("## The core in an hour")[1].split("\n## ")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if re.match(r"\| \d", line)]
    files = [ROOT / name for name in re.findall(r"`((?:src|python)/[^`]*)`", "".join(rows))]
    headers = [file.with_suffix(".h") for file in files if file.with_suffix(".h").exists()]
    headers += [files[1].with_name(name) for name in re.findall(r"with `(\w+\.h)`", "".join(rows))]
    assert f"{len(files)} files" in section and len(files) <= 12
    assert "less than 4,500 lines" in " ".join(section.split())
    assert sum(len(file.read_text().splitlines()) for file in {*files, *headers}) < 4500


def test_the_table_of_statistics_has_every_key(workplace: Path) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page[page.index("## What a loader says about itself") :]
    loader = leat.Loader(leat.open(workplace / "records.leat"), 10, framework="numpy")
    assert {key for key in loader.stats() if f"`{key}`" not in table} == set()

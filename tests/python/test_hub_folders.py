"""Folders as they are downloaded from the Hub of Hugging Face, and the files that patterns stand for."""

from __future__ import annotations

import gzip
import os
import pickle
import re
from pathlib import Path

import pytest
from cli_support import jpeg, make_folder
from cli_support import leat as shell

import leat
from leat.data.hugging_face import _PHOTOS
from leat.data.paths import expanded

FORMATS = (Path(__file__).parents[2] / "src/codec/photo/formats.def").read_text()

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

CARD = """---
license: cc0-1.0
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*
  - split: test
    path: [data/test-*]
tags: [a]
---
# A data set
"""


def write(path: Path, first: int, n: int = 3) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({"x": list(range(first, first + n))}), path)
    return path


def repository(folder: Path, card: str | None = CARD) -> list[Path]:
    files = [write(folder / "data" / f"train-{i:05}-of-00002.parquet", 3 * i) for i in range(2)]
    write(folder / "data" / "test-00000-of-00001.parquet", 100)
    if card is not None:
        (folder / "README.md").write_text(card)
    (folder / ".gitattributes").write_text("*.parquet filter=lfs\n")
    return files


def values(ds: leat.Dataset) -> list[int]:
    return [s["x"] for s in ds]


@pytest.mark.parametrize("card", [CARD, None, "# A data set without configs\n"])
def test_a_folder_of_the_hub_opens_by_its_splits(tmp_path: Path, card: str | None) -> None:
    files = repository(tmp_path, card)
    ds = leat.open(tmp_path, split="train")
    assert values(ds) == list(range(6)) and values(leat.open(tmp_path, split="test")) == [100, 101, 102]
    assert ds.fingerprint == leat.open(files).fingerprint == leat.open(tmp_path, split="train", format="hf").fingerprint
    assert pickle.loads(pickle.dumps(ds)).fingerprint == ds.fingerprint
    for split in (None, "validation"):
        with pytest.raises(leat.InvalidError, match="'train'.*split="):
            leat.open(tmp_path, split=split)


def test_the_default_configuration_is_the_one_that_is_opened(tmp_path: Path) -> None:
    write(tmp_path / "en" / "a.parquet", 0)
    write(tmp_path / "de" / "a.parquet", 10)
    two = "---\nconfigs:\n- config_name: en\n  data_files: en/*.parquet\n- config_name: de\n  data_dir: de\n"
    (tmp_path / "README.md").write_text(two + "  data_files: '*.parquet'\n---\n")
    with pytest.raises(leat.InvalidError, match=r"2 configurations.*en/\*\.parquet; .*de/\*\.parquet"):
        leat.open(tmp_path)
    (tmp_path / "README.md").write_text(two + "  data_files: '*.parquet'\n  default: true\n---\n")
    assert values(leat.open(tmp_path)) == values(leat.open(tmp_path, split="train")) == [10, 11, 12]


def test_a_shard_that_was_not_downloaded_is_an_error(tmp_path: Path) -> None:
    files = repository(tmp_path)
    files[1].unlink()
    with pytest.raises(leat.MissingFileError, match="number 1 .*train-00001-of-00002"):
        leat.open(tmp_path, split="train")
    assert values(leat.open(tmp_path, split="test")) == [100, 101, 102]
    (tmp_path / "data" / "test-00000-of-00001.parquet").unlink()
    with pytest.raises(leat.MissingFileError, match="'test'.*download it again"):
        leat.open(tmp_path, split="test")


def test_only_files_that_the_card_names_have_to_be_there(tmp_path: Path) -> None:
    repository(tmp_path, "---\nconfigs:\n- data_files: data/train-00001-of-00002.parquet\n---\n")
    (tmp_path / "data" / "train-00000-of-00002.parquet").unlink()
    assert values(leat.open(tmp_path)) == [3, 4, 5]
    write(tmp_path / "a.parquet", 7)
    (tmp_path / "README.md").write_text("---\nconfigs:\n- data_files: [a.parquet, b.parquet]\n---\n")
    with pytest.raises(leat.MissingFileError, match=r"no file b\.parquet of the split 'train', which README\.md names"):
        leat.open(tmp_path)
    write(tmp_path / "b.parquet", 17)
    assert values(leat.open(tmp_path)) == [7, 8, 9, 17, 18, 19]


def test_photos_that_a_card_names_are_a_folder_of_photos(tmp_path: Path) -> None:
    make_folder(tmp_path / "all", {"ant": 2, "bee": 1}, (8, 8), jpeg)
    (tmp_path / "README.md").write_text("---\nconfigs:\n- data_files:\n  - {split: train, path: all/**}\n---\n")
    assert leat.open(tmp_path).fingerprint in shell("info", tmp_path).stdout
    assert "image" in leat.open(tmp_path).schema and "format         folder" in shell("info", tmp_path).stdout
    assert set(_PHOTOS) == set(re.findall(r"\.\w+", " ".join(re.findall(r'"[^"]*", (".[^"]*"), "\.', FORMATS))))
    write(tmp_path / "data" / "a.parquet", 0)
    (tmp_path / "README.md").write_text("---\nconfigs:\n- data_files: data/*\n---\n")
    assert "format         parquet" in shell("info", tmp_path).stdout  # photos beside it are none of its files


@pytest.mark.parametrize(
    "configs",
    [
        "[{data_files: ../../etc/*}]",
        "[{data_files: /etc/*}]",
        "[{data_dir: .., data_files: '*'}]",
        "[{data_files: [3]}]",
        "[{data_files: [{split: 3, path: a}]}]",
        "[{data_files: [{split: a, path: [[x]]}]}]",
        "[{data_files: hf://buckets/a}]",
        "[" * 10_000,
        "{a: [",
    ],
)
def test_a_card_that_lies_is_an_error_of_its_file(tmp_path: Path, configs: str) -> None:
    repository(tmp_path, f"---\nconfigs: {configs}\n---\n")
    with pytest.raises(leat.CorruptError, match=r"README\.md"):
        leat.open(tmp_path, split="train")


def test_a_card_without_files_leaves_a_folder_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("---\nconfigs: 3\n---\n")
    with pytest.raises(leat.MissingFileError, match="holds no photo"):
        leat.open(tmp_path)
    with pytest.raises(leat.MissingFileError, match=r"neither a README\.md with configs nor files"):
        leat.open(tmp_path, format="hf")
    with pytest.raises(ValueError, match="split is for a folder"):
        leat.open(tmp_path, split="train")


# ---- patterns ------------------------------------------------------------------------------------


def lines(folder: Path) -> list[Path]:
    paths = [folder / f"p-{i}.jsonl" for i in (0, 1, 2, 10)]
    for i, path in enumerate(paths):
        path.write_text(f'{{"x": {i}}}\n')
    return paths


@pytest.mark.parametrize("pattern", ["p-*.jsonl", "p-*", "?-*.jsonl", "[op]-*.jsonl", "*"])
def test_a_pattern_with_a_star_is_the_list_of_its_files_by_name(tmp_path: Path, pattern: str) -> None:
    paths = sorted(lines(tmp_path), key=os.fsencode)
    listed = leat.open(paths)  # its indexes lie beside the files: they are no data
    ds = leat.open(tmp_path / pattern)
    assert values(ds) == values(listed) == [0, 1, 3, 2] and ds.fingerprint == listed.fingerprint
    assert pickle.loads(pickle.dumps(ds)).fingerprint == ds.fingerprint


def test_a_star_goes_with_a_range_of_numbers_and_in_a_list(tmp_path: Path) -> None:
    paths = lines(tmp_path)
    assert values(leat.open(str(tmp_path / "p-{0..1}*.jsonl"))) == [0, 1, 3]
    assert values(leat.open([paths[2], tmp_path / "p-1*.jsonl"])) == [2, 1, 3]


def test_a_pattern_that_nothing_fits_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(leat.MissingFileError, match=r"no file fits the pattern .*q-\*\.jsonl"):
        leat.open(tmp_path / "q-*.jsonl")


def test_an_empty_list_of_files_is_an_error_of_open() -> None:
    for format in ("auto", "tar", "parquet", "h5ad", "lance", "jsonl"):  # noqa: A001
        with pytest.raises(leat.InvalidError, match="src is an empty list: leat.open takes a path"):
            leat.open([], format=format)


def test_a_file_with_a_star_in_its_name_is_itself(tmp_path: Path) -> None:
    lines(tmp_path)
    (tmp_path / "p-*.jsonl").write_text('{"x": 7}\n')
    assert values(leat.open(tmp_path / "p-*.jsonl")) == [7]


# ---- folders of files of one kind ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        (
            ["s-000.tar", "s-001.tar", "s-002.tar"],
            ': "{}/s-{{000..002}}.tar" (3 files as one; a list of them does, too)',
        ),
        (["s-0.tar.gz", "s-1.tar.gz", "s-5.tar.gz"], ': "{}/s-*.tar.gz" (3 files as one'),
        ([f"p{i}.parquet" for i in range(8, 12)], ': "{}/p{{8..11}}.parquet" (4 files'),
        (["p8.parquet", "p09.parquet"], ': "{}/p*.parquet" (2 files'),
        (
            ["t-00000-of-00002.jsonl", "t-00001-of-00002.jsonl", "v-0.jsonl"],
            ', such as "{}/t-{{00000..00001}}-of-00002',
        ),
        (["s-0.tar", "s-1.tar", "s-5.tar", "s-old.tar"], ', such as "{}/s-[0-9]*.tar" (3 files'),
        (["s[0]-1.tar", "s[0]-3.tar"], ': "{}/s[[]0]-*.tar" (2 files'),
        (["s[0]-1.tar", "s[0]-2.tar"], ': "{}/s[0]-{{1..2}}.tar" (2 files'),
        (["a1b1.npz", "a1b2.npz", "a2b1.npz"], ': "{}/a*.npz" (3 files'),
        (["only.h5ad", "notes.txt"], ': "{}/only.h5ad"'),
        (["b/s-1.beton", "b/s-2.beton", "c/s-1.beton"], ': "{}/b/s-{{1..2}}.beton" (2 files'),
        (["one/index.json", "two/index.json"], ', such as "{}/one"'),
    ],
)
def test_a_folder_without_photos_says_how_its_files_open(tmp_path: Path, names: list[str], hint: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    with pytest.raises(leat.MissingFileError) as e:
        leat.open(tmp_path)
    assert str(e.value).startswith(f"{tmp_path} holds no photo; what lies there opens by name{hint.format(tmp_path)}")


def test_the_pattern_of_a_folder_opens_its_files(tmp_path: Path) -> None:
    """Whatever characters the folder's name has, and however many files there are."""
    for names, said in ((("1", "3"), ""), (range(20_100), "at least ")):
        folder = tmp_path / f"a[{len(names)}]*"
        folder.mkdir()
        for i in names:
            (folder / f"s-{i}.tar").touch()
        with pytest.raises(leat.MissingFileError, match=rf"\({said}\d+ files as one") as e:
            leat.open(folder)
        assert len(expanded(str(e.value).split('"')[1])) == len(names)


def test_files_that_leat_does_not_read_say_what_packs_them(tmp_path: Path) -> None:
    (tmp_path / "sounds").mkdir()
    (tmp_path / "sounds" / "a.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
    for path in ("sounds", "sounds/a.wav"):
        with pytest.raises(leat.Error, match=r"leat\.pack, or leat pack --dataset, packs what a Python data set reads"):
            leat.open(tmp_path / path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(leat.MissingFileError, match="here and in its folders$"):
        leat.open(tmp_path / "empty")


@pytest.mark.parametrize(("format", "ends"), [("jsonl", "jsonl"), ("parquet", "parquet"), ("hdf5", "h5")])  # fmt: skip
def test_a_format_of_files_says_so_of_a_folder(tmp_path: Path, format: str, ends: str) -> None:  # noqa: A002
    for i in range(2):
        (tmp_path / f"{i}.{ends}").write_text("")
    with pytest.raises((leat.FileError, leat.FormatError), match=r"is a folder, not a file.*/(\*|\{0\.\.1\})\." + ends):
        leat.open(tmp_path, format=format)


def test_a_compressed_file_of_another_format_says_that_it_is_compressed(tmp_path: Path) -> None:
    (tmp_path / "a.beton.gz").write_bytes(gzip.compress(b"no format that is read compressed" * 9))
    with pytest.raises(leat.FormatError, match=r"a\.beton\.gz is compressed with gzip.*decompress it \(gzip -dk\)"):
        leat.open(tmp_path / "a.beton.gz")


def test_a_folder_of_the_hub_whose_name_looks_like_a_pattern_opens_in_the_shell(tmp_path: Path) -> None:
    repository(tmp_path / "a[1]{2}*", None)
    assert "samples        3" in shell("info", tmp_path / "a[1]{2}*", "--split", "test").stdout


def test_a_folder_of_the_hub_opens_in_the_shell(tmp_path: Path) -> None:
    repository(tmp_path)
    want = leat.open(tmp_path, split="train").fingerprint
    assert want in shell("info", tmp_path, "--split", "train").stdout
    assert "'test': choose one by --split" in shell("info", tmp_path, code=2).stderr
    assert shell("cat", tmp_path, "--split", "test", "--id", 1, "--field", "x").stdout.strip() == "101"
    assert want in shell("convert", tmp_path, tmp_path / "a.leat", "--split", "train").stdout
    assert "--split is for folders of Hugging Face" in shell("info", tmp_path / "a.leat", "--split", "a", code=2).stderr
    assert "every value was read" in shell("verify", tmp_path).stdout
    (tmp_path / "data" / "test-00000-of-00001.parquet").write_bytes(b"no table")
    assert "test-00000-of-00001.parquet is no Parquet file" in shell("verify", tmp_path, code=1).stdout

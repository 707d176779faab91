"""The examples in Python run as they stand."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from script_support import python

import leat

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
whole = pytest.mark.shard("whole")


@whole
def test_the_quickstart_learns_fashion_mnist() -> None:
    pytest.importorskip("torch")
    folder = Path(os.environ.get("LEAT_DATA", "/nowhere")) / "fashion-mnist"
    if not folder.is_dir():
        pytest.skip("LEAT_DATA names no folder with fashion-mnist")
    done = python(EXAMPLES / "fashion_mnist.py", folder)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("epoch 2: ")
    assert float(last.split()[2].rstrip("%")) > 70


@pytest.mark.parametrize("chance", [1 / 6, 0.25, 0.5, 0.928])
def test_the_demo_asks_for_as_many_photos_as_it_needs(chance: float) -> None:
    pytest.importorskip("torch")
    demo = runpy.run_path(str(EXAMPLES / "demo.py"), run_name="demo")
    n = demo["to_tell"](chance)

    def enough(photos: int) -> bool:
        needed = chance + demo["DEVIATIONS"] * (chance * (1 - chance) / photos) ** 0.5
        return photos * chance >= demo["RIGHT_BY_CHANCE"] and needed < 1

    assert enough(n) and not enough(n - 1)


@whole
@pytest.mark.parametrize("graphs", [[], ["cora.npz", "citeseer.npz", "nowhere.npz"]], ids=["random", "files"])
def test_features_of_a_graph_are_the_same_gathered_by_leat(graphs: list[str]) -> None:
    pytest.importorskip("torch")
    folder = Path(os.environ.get("LEAT_DATA", "/nowhere")) / "static-graph"
    there = [name for name in graphs if (folder / name).exists()]
    if graphs and not there:
        pytest.skip("LEAT_DATA names no folder with static-graph/cora.npz")
    done = python(EXAMPLES / "graph_features.py", *(folder / name for name in graphs), "--steps", 20)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "the results are equal"
    assert done.stdout.count("plain torch: loss") == max(len(there), 1)
    for name in set(graphs) - set(there):
        assert f"{name} is skipped" in done.stdout


@whole
def test_the_detector_learns_from_boxes_that_move_with_their_photos(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = Path(os.environ.get("LEAT_DATA", "/nowhere")) / "coco128"
    if not folder.is_dir():
        pytest.skip("LEAT_DATA names no folder with coco128")
    data = [folder / "images" / "train2017", folder / "instances_train2017_present.json"]
    done = python(EXAMPLES / "detection.py", *data, "--short", "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr  # 1: the loss did not fall
    assert {p.name for p in tmp_path.iterdir()} == {"given.png", "found.png", "boxes.png"}
    found = re.search(r"(\d+) of (\d+) objects are found", done.stdout)
    assert found and int(found[1]) > int(found[2]) / 10


@whole
@pytest.mark.parametrize("form", ["yolo", "voc", "packed", "no annotations"])
def test_the_detector_takes_what_the_package_opens(form: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    photos, notes = tmp_path / "photos", tmp_path / "notes"
    photos.mkdir()
    notes.mkdir()
    for i in range(10):
        picture = Image.new("RGB", (80, 60 + i), (40, 90, 20 * i))
        picture.paste((250, 30, 30), (8 + i, 12, 40 + i, 44))
        picture.save(photos / f"{i}.jpg")
        if form == "voc":
            box = f"<xmin>{8 + i}</xmin><ymin>12</ymin><xmax>{40 + i}</xmax><ymax>44</ymax>"
            object_ = f"<object><name>square</name><bndbox>{box}</bndbox></object>"
            (notes / f"{i}.xml").write_text(f"<annotation>{object_}</annotation>")
        else:
            (notes / f"{i}.txt").write_text(f"1 {(24 + i) / 80} {28 / (60 + i)} 0.4 {32 / (60 + i)}\n")
    data = {"packed": [tmp_path / "packed.leat"], "no annotations": [photos]}.get(form, [photos, notes])
    if form == "packed":
        with leat.Writer(
            data[0], {"image": "image", "boxes": leat.boxes(), "label": leat.field("int64", (None,))}
        ) as w:
            for i in range(10):
                w.add(image=(photos / f"{i}.jpg").read_bytes(), boxes=[[8 + i, 12, 40 + i, 44]], label=[2])
    elif form == "yolo":
        (notes / "classes.txt").write_text("circle\nsquare\n")
    done = python(EXAMPLES / "detection.py", *data, "--epochs", "4", "--out", tmp_path / "out")
    if form == "no annotations":
        assert done.returncode == 1
        assert "give its annotations" in done.stderr
        assert "Traceback" not in done.stderr
    else:
        assert "of the first 10 photos" in done.stdout, done.stdout + done.stderr
        assert {p.name for p in (tmp_path / "out").iterdir()} == {"given.png", "found.png", "boxes.png"}


@whole
def test_the_detector_says_what_it_cannot_learn_from(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    photos, masks = tmp_path / "photos", tmp_path / "masks"
    photos.mkdir()
    masks.mkdir()
    Image.new("RGB", (40, 30)).save(photos / "a.jpg")
    Image.new("L", (40, 30)).save(masks / "a.png")
    photo = (photos / "a.jpg").read_bytes()
    with leat.Writer(tmp_path / "labels.leat", {"image": "image", "label": "int64"}) as writer:
        writer.add(image=photo, label=1)
    fields = {"image": "image", "boxes": leat.boxes(), "label": leat.field("int64", (None,))}
    with leat.Writer(tmp_path / "none.leat", fields) as writer:
        writer.add(image=photo, boxes=[], label=[])
    for arguments, code, words in (
        ([tmp_path / "labels.leat"], 1, "gives no field boxes: it learns from boxes"),
        ([photos, masks], 1, "gives no field boxes and no label: it learns from boxes"),
        ([tmp_path / "none.leat"], 1, "has no boxes"),
        ([tmp_path / "none.leat", "--epochs", "0"], 2, "--epochs is at least 3, not 0"),
        ([tmp_path / "none.leat", "--epochs", "1"], 2, "--epochs is at least 3, not 1"),
    ):
        done = python(EXAMPLES / "detection.py", *arguments, "--out", tmp_path / "out")
        assert done.returncode == code and words in done.stderr and "Traceback" not in done.stderr, done.stderr


@whole
@pytest.mark.parametrize("data", ["made", "fashion-mnist"])
def test_trainings_learn_from_batches_that_another_script_makes(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    folder = Path(os.environ.get("LEAT_DATA", "/nowhere")) / data
    if data != "made" and not folder.is_dir():
        pytest.skip("LEAT_DATA names no folder with fashion-mnist")
    ports = tmp_path / "p"
    monkeypatch.setenv("LEAT_RUNTIME_DIR", str(ports))
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # three processes share the cores
    serve = [sys.executable, EXAMPLES / "share_producer.py", *([folder] if data != "made" else [])]
    train = [sys.executable, EXAMPLES / "share_consumer.py", "--epochs", "2", "--batch-size"]
    running = [subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)]
    try:
        assert running[0].stdout and running[0].stdout.readline().startswith("serving fashion: ")
        running += [subprocess.Popen([*train, size], stdout=subprocess.PIPE, text=True) for size in ("64", "100")]
        said = [process.communicate(timeout=500)[0] for process in running[1:]]
        leat.ports.stop("fashion")
        assert running[0].wait(120) == 0
    finally:
        for process in running:
            process.kill()
            process.communicate()
    for text in said:
        rates = [float(n) for n in re.findall(r"^epoch \d: ([\d.]+)% of ", text, re.M)]
        assert len(rates) == 2 and rates[1] > max(rates[0], 70), said
    assert list(ports.iterdir()) == []


@whole
@pytest.mark.parametrize("real", [True, False])
def test_the_model_of_dna_learns_from_the_bases_that_are_known(
    real: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    genome = Path(os.environ.get("LEAT_DATA", "/nowhere")) / "dna" / "ce.fa"
    if real and not genome.is_file():
        pytest.skip("LEAT_DATA names no folder with dna/ce.fa")
    copy = [shutil.copy(genome, tmp_path)] if real else []  # the index is written beside it
    monkeypatch.chdir(tmp_path)
    done = python(EXAMPLES / "genome.py", *copy)
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(line.split()[3]) for line in done.stdout.splitlines()]
    assert len(losses) >= 3 and losses[-1] < np.log(4)


@whole
def test_types_of_cells_are_learned_from_counts(tmp_path: Path) -> None:
    for package in ("torch", "h5py", "scipy"):
        pytest.importorskip(package)
    from cells_support import write_h5ad
    from scipy.sparse import csr_matrix

    draw = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2, -1], [90, 150, 60, 20])  # those of no type are not learned from
    counts = draw.poisson(draw.gamma(1, 2, (3, 40))[codes]).astype("f4")
    columns = {"kind": (codes, ["B", "NK", "T"]), "depth": counts.sum(1)}
    layers = {"counts": csr_matrix(counts)}
    write_h5ad(tmp_path / "a.h5ad", np.log1p(counts), obs=columns, layers=layers, compression="gzip")
    done = python(EXAMPLES / "annotate_cells.py", tmp_path / "a.h5ad", "--label", "kind", "--counts", "layers.counts")
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["B", "NK", "T", "all"]
    right, of = map(int, re.findall(r"\d+", done.stdout.splitlines()[-1]))
    assert of == 30 and right > 20
    done = python(EXAMPLES / "annotate_cells.py", tmp_path / "a.h5ad", "--label", "depth")
    assert done.returncode == 2 and "it has the labels kind in <leat.Dataset of 320 samples" in done.stderr


def test_every_example_says_how_it_is_called() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tqdm")
    for example in sorted(EXAMPLES.glob("*.py")):  # seconds: each imports all that it needs, in a process of its own
        if example.stem != "progress":
            done = python(example, "--help")
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith(f"usage: {example.name}")


def test_the_progress_in_a_log_has_the_rate_of_now(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A training that becomes slower: a line each ten seconds, and the rate falls with it."""
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.syspath_prepend(EXAMPLES)
    from progress import plain

    now = 1000.0
    monkeypatch.setattr("tqdm.std.time", lambda: now)
    monkeypatch.setattr(tqdm.tqdm, "monitor_interval", 0)
    with tqdm.tqdm(total=10_000, desc="a", **plain()) as bar:
        for second in range(90):
            for _ in range(4):
                now += 0.25
                bar.update(25 if second < 30 else 5)
    rates = [float(line.split(", ")[1].split("it/s")[0]) for line in capsys.readouterr().err.splitlines()]
    assert len(rates) >= 8 and rates[1] == pytest.approx(100)
    assert all(later < rate for rate, later in zip(rates[3:7], rates[4:8])), rates


def test_the_progress_of_an_example_is_lines_in_a_log() -> None:
    pytest.importorskip("tqdm")
    soon = "plain() | {'delay': 1e-9, 'mininterval': 0}"
    shown = f"from progress import *\nfor _ in tqdm(range(3), desc='a', **({soon})): pass"
    short = "from progress import *\nfor _ in progress(range(3)): pass"
    for code, lines in ((shown, 3), (short, 0)):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=EXAMPLES, timeout=120, check=True)
        assert b"\r" not in done.stderr
        assert len(done.stderr.splitlines()) >= lines if lines else not done.stderr


@whole
def test_a_cyclegan_that_was_interrupted_trains_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    folder = Path(os.environ.get("LEAT_DATA", "/nowhere")) / "ants2bees"
    if not folder.is_dir():
        pytest.skip("LEAT_DATA names no folder with ants2bees")

    def train(out: str, *options: str) -> str:
        done = python(EXAMPLES / "cyclegan.py", folder, "--side", "16", "--out", tmp_path / out, *options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def losses(out: str) -> list[dict[str, float]]:
        return torch.load(tmp_path / out / "checkpoint.pt", weights_only=True)["losses"]

    assert "epochs: 2 of 20 photos, 2 of 26" in train("whole", "--steps", "30")
    train("parts", "--steps", "23")
    train("parts", "--steps", "30", "--resume")
    assert losses("parts") == losses("whole")
    assert len(losses("whole")) == 30
    assert (tmp_path / "parts" / "sheet.png").read_bytes() == (tmp_path / "whole" / "sheet.png").read_bytes()


def train_lm(capsys: pytest.CaptureFixture[str], out: Path, *more: str) -> str:
    """Runs the example on a few made texts, in this process, and gives its output."""
    texts = out.parent / "texts.jsonl"
    if not texts.exists():
        lines = (
            json.dumps({"text": f"{domain} {i} " * (3 + i % 7), "meta": {"domain": domain}})
            for i in range(60)
            for domain in ("code", "books", "web")[: 1 + i % 3]
        )
        texts.write_text("\n".join(lines))
    arguments = [str(texts), "--out", str(out), "--steps", "18", "--batch", "8", "--length", "16", *more]
    main = runpy.run_path(str(EXAMPLES / "train_lm.py"), run_name="train_lm")["main"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["train_lm.py", *arguments])
        main()
    return capsys.readouterr().out


@pytest.mark.parametrize("mixture", ["static", "scheduled", "ado"])
def test_the_language_model_reads_the_same_tokens_wherever_it_stops_on_any_ranks_and_peers(
    mixture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    if not hasattr(leat, "ADO") and mixture == "ado":
        pytest.skip("this build has no leat.ADO")
    kind = ["--no-model", "--mixture", mixture, "--refit", "5"]
    expected = train_lm(capsys, tmp_path / "whole", *kind).splitlines()[-1]
    assert expected.startswith("tokens of 18 steps: ")
    train_lm(capsys, tmp_path / "cut", *kind, "--stop", "4")
    for ranks, peers, stop in (("1", "2", "9"), ("2", "1", "11"), ("2", "2", "14")):
        train_lm(capsys, tmp_path / "cut", *kind, "--resume", "--ranks", ranks, "--tp", peers, "--stop", stop)
    assert train_lm(capsys, tmp_path / "cut", *kind, "--resume", "--ranks", "4").splitlines()[-1] == expected


@whole
def test_the_language_model_learns_and_tells_shares_and_losses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    told = train_lm(capsys, tmp_path / "run", "--every", "6")
    losses = [float(n) for n in re.findall(r"^step \d+: loss ([\d.]+)", told, re.M)]
    assert losses[-1] < losses[0]
    assert re.search(r"^books +0\.\d+ ", told, re.M)


@whole
def test_prompts_get_equal_answers_as_they_came_sorted_and_grouped(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    shots = [f"Q: {i} and {i}? A: {2 * i}\n" * 20 for i in range(3)]
    (tmp_path / "gsm8k").mkdir()
    lines = [json.dumps({"context": f"{shots[i % 3]}Q: {i} and 1? A:"}) + "\n" for i in range(9)]
    (tmp_path / "gsm8k" / "gsm8k_prepended_8shot.jsonl").write_text("".join(lines))
    folders = [tmp_path, Path(os.environ.get("LEAT_DATA", "/nowhere")) / "prompts"]
    for folder in filter(Path.is_dir, folders):
        done = python(EXAMPLES / "prompts.py", folder, "--short")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "the answers are equal, in the order of the prompts"
    done = python(EXAMPLES / "prompts.py", tmp_path / "gsm8k")
    assert done.returncode == 2
    assert "has neither mmlu/test/*_test.csv nor gsm8k/" in done.stderr

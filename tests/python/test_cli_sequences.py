"""leat stats and leat view of FASTA and FASTQ: letters counted here by other means, and lines as they are expected."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import command as executable
from cli_support import leat as command
from cli_support import real_data
from PIL import Image

import leat

DNA = ["ACGTacgtNN", "GGGGCCCC", "", "ACGTRYKM-*" * 30]
PROTEINS = ["MHPKIFALLAKFPRVELIPWX", "MKV*", "MKV*"]


def fasta(path: Path, sequences: list[str]) -> Path:
    path.write_text("".join(f">s{i} number {i}\n{s}\n" for i, s in enumerate(sequences)))
    return path


def fastq(path: Path, reads: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"@r{i}\n{s}\n+\n{q}\n" for i, (s, q) in enumerate(reads)))
    return path


def found(path: Path, *options: object) -> dict[str, Any]:
    stats = json.loads(command("stats", path, "--json", *options).stdout)
    return {one["field"]: one for one in stats.get("texts", [])}


def test_the_residues_of_dna_are_counted(tmp_path: Path) -> None:
    one = found(fasta(tmp_path / "a.fa", DNA))["sequence"]
    text = "".join(DNA)
    assert one["unit"] == "residues" and one["documents"] == 4 and one["empty"] == 1 and one["total"] == len(text)
    assert {r["residue"]: r["count"] for r in one["residues"]} == Counter(text)
    assert sum(r["share"] for r in one["residues"]) == pytest.approx(1)
    assert one["n50"] == 300 and one["no_residues"] == 0 and one["lower_case"] == pytest.approx(4 / 258)


def test_nucleotides_have_a_share_of_gc_and_of_what_is_unknown(tmp_path: Path) -> None:
    one = found(fasta(tmp_path / "a.fa", DNA[:3]))["sequence"]
    assert one["alphabet"] == "nucleotides" and one["acgtun"] == 1
    assert one["gc"] == pytest.approx(12 / 16)
    assert one["unknown"] == one["not_standard"] == pytest.approx(2 / 18)
    assert one["n50"] == 10


def test_proteins_are_told_from_nucleotides(tmp_path: Path) -> None:
    one = found(fasta(tmp_path / "a.fa", PROTEINS))["sequence"]
    assert one["alphabet"] == "amino acids" and one["gc"] is None
    assert one["unknown"] == pytest.approx(1 / 29) and one["not_standard"] == pytest.approx(3 / 29)
    assert one["duplicates"] == 1 and one["repeated"][0]["begins"] == "MKV*"


@pytest.mark.parametrize(("bases", "alphabet"), [(85, "nucleotides"), (84, "amino acids")])
def test_the_border_of_nucleotides_is_85_percent(tmp_path: Path, bases: int, alphabet: str) -> None:
    path = fasta(tmp_path / "a.fa", ["A" * bases + "L" * (100 - bases)])
    assert found(path)["sequence"]["alphabet"] == alphabet


def test_qualities_are_scores_by_phred_33(tmp_path: Path) -> None:
    path = fastq(tmp_path / "a.fq", [("ACGT", "!5?I"), ("AC", "II")])
    one = found(path)["quality"]
    q = np.array([0, 20, 30, 40, 40, 40])
    assert one["unit"] == "qualities" and one["total"] == 6 and one["no_qualities"] == 0
    assert one["scores"]["mean"] == pytest.approx(q.mean()) and one["scores"]["median"] == np.sort(q)[3]
    assert one["scores"]["bins"] == np.bincount(q).tolist() and one["scores"]["edges"] == list(range(42))
    assert one["q20"] == pytest.approx(5 / 6) and one["q30"] == pytest.approx(4 / 6)


def test_other_lists_of_bytes_have_lengths_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    with leat.Writer(path, {"data": leat.field("uint8", (None,)), "seq": leat.field("uint8", (None,))}) as w:
        w.add(data=np.arange(200, dtype=np.uint8), seq=np.frombuffer(b"MKLV", np.uint8))
    assert list(found(path)) == ["seq"]
    assert list(found(path, "--no-text")) == []
    assert "data           200 rows" in command("stats", path).stdout


def test_sums_of_residues_are_divided_by_a_property(tmp_path: Path) -> None:
    one = found(fasta(tmp_path / "a.fa", ["AC", "ACGT"]), "--by", "name")["sequence"]
    assert [(b["value"], b["total"]) for b in one["by"]] == [("s1", 4), ("s0", 2)]


def test_the_table_and_the_chart_have_the_composition(tmp_path: Path) -> None:
    path = fastq(tmp_path / "a.fq", [("ACGTAA", "!5?III")])
    said = command("stats", path, "--plot", tmp_path / "a.png").stdout
    assert "6 residues in 1 sequences; N50 6" in said and "GC 33.33%" in said and "mean 28.33" in said
    assert "  A                   3  50.00% ####" in said
    with Image.open(tmp_path / "a.png") as picture:
        colours = {c for _, c in picture.getcolors(1 << 20) or []}
    assert {(0x7F, 0xD6, 0x7A), (0xFF, 0xC0, 0x67)} <= colours


def test_sequences_are_printed_in_lines_and_groups(tmp_path: Path) -> None:
    path = fastq(tmp_path / "a.fq", [("ACGTACGTAC" * 6 + "acg", "I" * 60 + "!5?"), ("", "")])
    assert command("view", path).stdout == (
        "sample 0: r0, 63 residues\n"
        + " " * 12 + "0  " + " ".join(["ACGTACGTAC"] * 6) + "\n"
        + " " * 15 + " ".join(["I" * 10] * 6) + "\n"
        + " " * 11 + "60  acg\n"
        + " " * 15 + "!5?\n"
        + "\nsample 1: r1, 0 residues\n"
    )  # fmt: skip


def test_records_without_residues_are_shown(tmp_path: Path) -> None:
    assert command("view", fasta(tmp_path / "a.fa", [""])).stdout == "sample 0: s0, 0 residues\nnumber 0\n"


def test_a_long_sequence_is_left_out_in_the_middle(tmp_path: Path) -> None:
    path = fasta(tmp_path / "a.fa", ["M" * 1000 + "K" * 9000])
    lines = command("view", path).stdout.splitlines()
    assert lines[:2] == ["sample 0: s0, 10,000 residues", "number 0"]
    assert [line.split()[0] for line in lines[2:]] == ["0", "60", "120", "180", "240", "300", "360", "420", "...",
                                                       "9,900", "9,960"]  # fmt: skip
    assert lines[10].strip() == "... 9,420 residues ..."
    assert lines[-1].split()[1:] == ["K" * 10] * 4


def test_a_range_is_shown_from_its_first_residue_on(tmp_path: Path) -> None:
    path = fasta(tmp_path / "a.fa", [PROTEINS[0], "MK"])
    lines = command("view", path, "--begin", 3, "--residues", 12).stdout.splitlines()
    assert lines[2].split() == ["3", "KIFALLAKFP", "RV"] and lines[3].strip() == "... 6 residues more"
    assert lines[-1].strip() == "... ends before residue 3"


def test_the_first_eight_are_shown_unless_others_are_named(tmp_path: Path) -> None:
    path = fasta(tmp_path / "a.fa", ["MK"] * 30)

    def shown(*options: object) -> list[str]:
        lines = command("view", path, *options).stdout.splitlines()
        return [line.split(",")[0] for line in lines if line.startswith("sample")]

    assert shown() == [f"sample {i}: s{i}" for i in range(8)]
    assert shown("--ids", "20,3") == ["sample 20: s20", "sample 3: s3"]
    assert shown("--from", 28) == ["sample 28: s28", "sample 29: s29"]
    assert shown("--where", "name = 's7'") == ["sample 0: s7"]


@pytest.mark.parametrize("plain", [False, True])
def test_a_terminal_has_colours_unless_they_are_not_wanted(tmp_path: Path, plain: bool) -> None:
    path = fasta(tmp_path / "a.fa", ["AACa"])
    ours, theirs = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | ({"NO_COLOR": "1"} if plain else {})
    done = subprocess.run([executable(), "view", str(path)], stdout=theirs, env=env, timeout=120)
    os.close(theirs)
    said = os.read(ours, 4096).decode()
    os.close(ours)
    assert done.returncode == 0
    coloured = "\x1b[30;48;5;114mAA\x1b[0m\x1b[30;48;5;215mC\x1b[0m\x1b[38;5;114ma\x1b[0m"
    assert ("AACa" in said and "\x1b" not in said) if plain else coloured in said


def test_names_and_letters_write_to_no_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a.fa"
    path.write_bytes(b">a\x1b[31m b\x07\nMK\n")
    said = command("view", path).stdout
    assert "\x1b" not in said and "\x07" not in said and "a\\x1b[31m, 2 residues" in said
    made = tmp_path / "b.leat"
    with leat.Writer(made, {"seq": leat.field("uint8", (None,))}) as w:
        w.add(seq=np.frombuffer(b"M" * 5000 + b"\x1b[31m\x00\xff", np.uint8))
    shown = command("view", made, "--begin", 4998, "--field", "seq").stdout
    assert "\x1b" not in shown and "MM?[31m??" in shown
    assert found(made)["seq"]["no_residues"] == 6


def test_a_sheet_has_a_cell_in_the_colour_of_each_residue(tmp_path: Path) -> None:
    path = fasta(tmp_path / "a.fa", ["ACG"])
    assert "(1012 x " in command("view", path, "--out", tmp_path / "a.png").stdout
    with Image.open(tmp_path / "a.png") as picture:
        pixels = np.asarray(picture)
    y, x = 92 + 32, 20 + 92  # HEADING + NAME, MARGIN + NUMBER of cli/view/sequences_sheet.c
    for i, colour in enumerate([(0x7F, 0xD6, 0x7A), (0xFF, 0xC0, 0x67), (0xF0, 0x76, 0x6F)]):
        assert tuple(pixels[y + 1, x + 14 * i + 1]) == colour


def test_a_sheet_that_is_too_high_says_what_to_show_instead(tmp_path: Path) -> None:
    path = fasta(tmp_path / "a.fa", ["A" * 300000])
    done = command("view", path, "--residues", 300000, "--out", tmp_path / "a.png", code=2)
    assert "--residues" in done.stderr and not (tmp_path / "a.png").exists()


def test_pictures_need_a_file_to_be_drawn_to(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    with leat.Writer(path, {"x": "int64"}) as w:
        w.add(x=1)
    assert "--out is missing" in command("view", path, code=2).stderr


def test_real_proteins_and_genomes_are_told_apart(tmp_path: Path) -> None:
    for folder, name, alphabet in (("proteins", "uniprot_sprot_archaea.fasta", "amino acids"),
                                   ("dna", "ce.fa", "nucleotides")):  # fmt: skip
        path = tmp_path / name
        path.write_bytes((real_data(folder) / name).read_bytes())
        one = found(path)["sequence"]
        letters = Counter("".join(x for x in path.read_text().split("\n") if x[:1] != ">"))
        assert one["alphabet"] == alphabet
        assert {r["residue"]: r["count"] for r in one["residues"]} == letters

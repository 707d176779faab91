"""Writes the seeds of the targets of FASTA, FASTQ and BGZF: `python fuzz/seed_sequences.py fuzz/corpus`."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "python"))
from sequences_made import bgzf, fai, kept_index  # noqa: E402

root = Path(sys.argv[1])


def write(target: str, name: str, data: bytes) -> None:
    (root / target).mkdir(parents=True, exist_ok=True)
    (root / target / name).write_bytes(data)


FASTA = {
    "even": b">a b c\nACGT\nACGT\nAC\n>d\nACGTA\nCG\n",
    "crlf": b">a b\r\nACGT\r\nACGT\r\nA\r\n>\r\n>a\r\nA\r\n",
    "uneven": b"\n>a\nAC\nACGT\n\nA C\nG\n>b\n\nACGT\nACGT\n>c",
    "long": b">a\n" + b"ACGTACGTAC\n" * 1000 + b"ACG\n" + b"ACGTACGTAC\n" * 1000,
    "nul": b">a\nAC\0GT\n",
    "no_name": b"ACGT\n>a\nACGT\n",
}
FASTQ = {
    "even": b"@a b\nACGT\n+\n!!!!\n@c\nAC\n+c\n@+\n",
    "lines": b"@a\nACGT\nAC\n+\n!!!!\n!!\n@b\n\n+\n\n",
    "unequal": b"@a\nACGT\n+\n!!!\n@b\nA\n+\n!\n",
    "cut": b"@a\nACGT\n+\n!!",
}
for name, data in FASTA.items():
    write("fuzz_sequences", f"{name}.fa", data)
    write("fuzz_fai", name, fai(data) + b"\0" + data)
    write("fuzz_bgzf", name, b"\0\0" + bgzf(data)[0])
    write("fuzz_bgzf", f"{name}.gzi", struct.pack("<H", len(bgzf(data)[1])) + bgzf(data)[1] + bgzf(data)[0])
for name, data in FASTQ.items():
    write("fuzz_sequences", f"{name}.fq", data)
write("fuzz_bgzf", "gzip", b"\0\0" + zlib.compress(FASTA["even"], wbits=31))
text = ">a b\nACGTACGT\nACGTACGT\nACG\n>c\nAC GT\nACG\n\nAC\n>d\n"
write("fuzz_sequence_index", "fasta", b"\1" + kept_index(text, ".fa"))
write("fuzz_sequence_index", "fastq", b"\0" + kept_index("@e\nACGT\n+\n!!!!\n", ".fq"))

"""Writes the seeds of the targets of events and of NumPy's files: `python fuzz/seed_event_files.py fuzz/corpus`."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np

root = Path(sys.argv[1])


def write(target: str, name: str, data: bytes) -> None:
    (root / target).mkdir(parents=True, exist_ok=True)
    (root / target / name).write_bytes(data)


JODIE = b"user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
TGN = b",u,i,ts,label,idx\n"
PLAIN_FORM, JODIE_FORM, TGN_FORM = b"\0", b"\1", b"\2"
for name, form, text in (
    ("plain", PLAIN_FORM, b"1 2 1082040961\n3 4 1082155839\n5 2 1082414391\n"),
    ("commas", PLAIN_FORM, b"src,dst,time,w\n1,2,3,0.5\n4 , 5,\t3,-1e3\n"),
    ("comments", PLAIN_FORM, b"\xef\xbb\xbf# a\r\n\r\n% b\n1\t2\t3.25\r\n1 2 4"),
    ("falling", PLAIN_FORM, b"1 2 5\n3 4 7.5\n5 6 -6\n7 8 7.5\n"),
    ("large", PLAIN_FORM, b"1 2 9007199254740993\n1 2 9223372036854775807\n1 2 1e20\n"),
    ("not_finite", PLAIN_FORM, b"1 2 3\n1 2 nan\n"),
    ("ragged", PLAIN_FORM, b"1 2 3 4\n1 2 3\n"),
    ("jodie", JODIE_FORM, JODIE + b"0,0,0.0,0,0.1,-0.2\n3,1,36.0,1,0.3,4\n"),
    ("jodie_bare", JODIE_FORM, JODIE + b"0,0,0,0\n2147483646,0,1,0\n"),
    ("tgn", TGN_FORM, TGN + b"0,4,5,0.0,0.0,1\n1,6,3,258552.0,1.0,2\n"),
    ("tgn_label", TGN_FORM, TGN + b"0,4,5,0.0,0.5,1\n"),
):
    write("fuzz_events", name, form + text)
for name, array in (("rows", np.zeros((3, 4), "f4")), ("column", np.arange(3.0)), ("object", np.zeros(2, "V8"))):
    file = io.BytesIO()
    np.save(file, array)
    write("fuzz_npy", name, file.getvalue())

"""Files of events: who met whom, and when."""

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest

import leat


def made(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def opened(path: Path, text: str | bytes, **options: object) -> leat.Dataset:
    return leat.open(made(path, text), **{"format": "events", **options})  # type: ignore[arg-type]


def test_a_line_is_an_event_whatever_stands_between_its_numbers(tmp_path: Path) -> None:
    text = "# who met whom\nsrc,dst,time\n1 2 5\n3\t4\t7\n\n % a comment\n5, 6 ,7\r\n 7 8 9"
    ds = opened(tmp_path / "a.txt", text)
    assert ds.column("src").tolist() == [1, 3, 5, 7]
    assert ds.column("dst").tolist() == [2, 4, 6, 8]
    assert ds.column("t").tolist() == [5, 7, 7, 9]
    assert [f.dtype for f in ds.schema.values()] == ["int64"] * 3
    assert ds.metadata == {"nodes": 9}
    assert ds.about["format"] == "events"


def test_events_out_of_order_are_an_error_that_names_the_line_and_sort_is_stable(tmp_path: Path) -> None:
    path, text = tmp_path / "a.txt", "1 2 5\n3 4 7\n5 6 6\n7 8 7\n9 9 5\n"
    for _ in range(2):  # read from the text, then from what was kept of it
        with pytest.raises(leat.CorruptError, match=r"a\.txt, line 3: time 6 comes after 7.*sort=True.*\(byte 12\)"):
            opened(path, text)
        ds = opened(path, text, sort=True)
        assert ds.column("src").tolist() == [1, 9, 5, 3, 7]
        assert ds.column("t").tolist() == [5, 5, 6, 7, 7]

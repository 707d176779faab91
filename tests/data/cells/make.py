"""Makes the files of single cells, and of plain arrays, that tests open; and expected.json, what they hold.

    python make.py FOLDER                     all of them
    python make.py FOLDER --only NAME ...     some, named as in the folder
    python check.py FOLDER                    reads each with today's packages and compares it with expected.json

Each file is written by the packages of its time, in a virtual environment with the pins in VENVS. It is made below
--venvs (build/cells) where it is not there yet, with `python3.7` and so on from the PATH:

    a06    anndata-0.6.22.h5ad, Python 3.7      a10    anndata-0.10.9.h5ad, Python 3.11
    a07    anndata-0.7.8.h5ad, Python 3.8       scdl   scdl-one and scdl-two, Python 3.11
    a08    anndata-0.8.0.h5ad, Python 3.9       today  all others, Python 3.11

Nothing is patched, except that times are left out of the files, so that they come out the same each time. Numbers are
drawn by NumPy's RandomState, which every version of it keeps, and computed by nothing but +, * and /.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import make_anndata  # noqa: F401 - they fill MAKERS
import make_arrays  # noqa: F401
import make_tenx  # noqa: F401
import numpy as np
from make_contents import EXPECTED, MAKERS, leave_out_times

VENVS = {
    "a06": ("3.7", "anndata==0.6.22 pandas==0.25.3 numpy==1.17.5 scipy==1.3.3 h5py==2.10.0"),
    "a07": ("3.8", "anndata==0.7.8 pandas==1.3.5 numpy==1.21.6 scipy==1.7.3 h5py==3.6.0"),
    "a08": ("3.9", "anndata==0.8.0 pandas==1.5.3 numpy==1.23.5 scipy==1.9.3 h5py==3.7.0"),
    "a10": ("3.11", "anndata==0.10.9 pandas==2.2.3 numpy==1.26.4 scipy==1.13.1 h5py==3.11.0"),
    "today": (
        "3.11",
        "anndata==0.12.19 pandas==2.3.3 numpy==2.4.6 scipy==1.17.1 h5py==3.16.0 hdf5plugin==7.1.0 zarr==3.1.6 "
        "numcodecs==0.16.6",
    ),
    "scdl": (
        "3.11",
        "bionemo-scdl==0.1.3 torch==2.13.0 pyarrow==26.0.1 anndata==0.12.19 pandas==2.3.3 numpy==2.4.6 scipy==1.17.1 "
        "h5py==3.16.0",
    ),
}


def write_expected(path):
    """Arrays, each once, and by file which it has. null: a missing value. Texts have the dtype "str"."""
    arrays, files = {}, {}

    def number(values):
        kind = "str" if values.dtype.kind == "U" else values.dtype.str
        missing = np.ma.getmaskarray(values).ravel().tolist()
        flat = [None if lost else v for v, lost in zip(np.ma.getdata(values).ravel().tolist(), missing)]
        flat = [int(v) if isinstance(v, float) and v.is_integer() else v for v in flat]  # shorter: 0, not 0.0
        text = json.dumps({"dtype": kind, "shape": values.shape, "values": flat}, ensure_ascii=False)
        return arrays.setdefault(text, len(arrays))

    for name in sorted(EXPECTED):
        files[name] = {part: number(values) for part, values in EXPECTED[name]().items()}
    lines = [f"{json.dumps(name)}: {json.dumps(of)}" for name, of in files.items()]
    text = '{"arrays": [\n' + ",\n".join(arrays) + '\n],\n"files": {\n' + ",\n".join(lines) + "\n}}\n"
    path.write_text(text, encoding="utf-8")


MAKERS["expected.json"] = ("today", write_expected)


def python_of(venv, folder):
    """The interpreter of a virtual environment, which is made where it is missing."""
    python, pins = VENVS[venv]
    at = folder / f"venv-{venv}"
    if not (at / "bin" / "python").exists():
        print(f"making {at}", flush=True)
        subprocess.run([f"python{python}", "-m", "venv", str(at)], check=True)
        subprocess.run([str(at / "bin" / "python"), "-m", "pip", "install", "--quiet", *pins.split()], check=True)
    return at / "bin" / "python"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the files go")
    parser.add_argument("--only", nargs="+", default=sorted(MAKERS), metavar="NAME", help="these alone")
    parser.add_argument("--venvs", type=Path, default=Path("build/cells"), help="where the virtual environments are")
    parser.add_argument("--here", action="store_true", help="in this process, with the packages there are")
    o = parser.parse_args()
    folder = o.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    unknown = sorted(set(o.only) - set(MAKERS))
    if unknown:
        sys.exit(f"there is no {unknown[0]}; there are {', '.join(sorted(MAKERS))}")
    if not o.here:
        for venv in sorted({MAKERS[name][0] for name in o.only}):
            names = [name for name in o.only if MAKERS[name][0] == venv]
            python = str(python_of(venv, o.venvs.absolute()))
            subprocess.run([python, __file__, str(folder), "--here", "--only", *names], check=True)
        return
    warnings.simplefilter("ignore")
    leave_out_times()
    for name in o.only:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(str(path))
        elif path.exists():
            path.unlink()
        MAKERS[name][1](path)


if __name__ == "__main__":
    main()

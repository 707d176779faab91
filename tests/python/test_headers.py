"""The installed headers: each by itself and all together, in C and in C++, where functions are those of the library."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

INCLUDE = Path(__file__).parents[2] / "include"
HEADERS = sorted(h.relative_to(INCLUDE).as_posix() for h in INCLUDE.glob("leat/*.h"))
LANGUAGES = [("c", "c99"), ("c", "c11"), ("c++", "c++11"), ("c++", "c++20")]


def compile(text: str, language: str, standard: str, out: Path) -> None:
    command = ["clang", f"-I{INCLUDE}", "-x", language, f"-std={standard}", "-c", "-o", str(out), "-"]
    flags = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
    done = subprocess.run([*command, *flags], input=text, text=True, capture_output=True, timeout=120)
    assert not done.returncode, done.stderr


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_stands_by_itself(header: str, tmp_path: Path) -> None:
    for language, standard in LANGUAGES:
        compile(f"#include <{header}>\nextern int x;\n", language, standard, tmp_path / "x.o")


@pytest.mark.parametrize(("language", "standard"), LANGUAGES)
def test_all_headers_together_declare_the_functions_of_the_library(
    language: str, standard: str, tmp_path: Path
) -> None:
    code = "".join(re.sub(r"/\*.*?\*/", "", (INCLUDE / h).read_text(), flags=re.S) for h in HEADERS)
    functions = sorted(set(re.findall(r"LEAT_API[^;{]*?\b(leat_\w+)\(", code)))
    uses = "".join(f"    f[{i}] = (void (*)(void)){name};\n" for i, name in enumerate(functions))
    includes = "".join(f"#include <{header}>\n" for header in HEADERS)
    text = f"{includes}void use(void (**f)(void));\nvoid use(void (**f)(void))\n{{\n{uses}}}\n"
    compile(text, language, standard, tmp_path / "all.o")
    symbols = subprocess.run(["nm", "-u", tmp_path / "all.o"], text=True, capture_output=True, check=True).stdout
    assert set(functions) <= set(symbols.split()) and "_Z" not in symbols

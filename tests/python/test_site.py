"""The parts of the documentation site that are made: pictures by operators, and references from what is documented."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from cli_support import COMMANDS, command
from PIL import Image

import leat

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    spec = importlib.util.spec_from_file_location("leat_site", ROOT / "tools" / "site.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build = tmp_path_factory.mktemp("site")
    module.BUILD, module.SOURCE = build, build / "source"
    module.SOURCE.mkdir()
    return module


@pytest.fixture(scope="module")
def gallery(site: ModuleType) -> tuple[str, dict[str, str]]:
    before = list(sys.path)
    try:
        return site.gallery(None)  # type: ignore[no-any-return]
    finally:
        sys.path[:] = before


SEEN = (
    "CenterCrop ColorJitter CopyPaste CutMix GaussianBlur Grayscale MixUp Pad RandAugment RandomAffine RandomApply "
    "RandomCrop RandomEqualize RandomHorizontalFlip RandomInvert RandomIoUCrop RandomPerspective RandomPosterize "
    "RandomResizedCrop RandomRotation RandomSolarize RandomVerticalFlip RandomZoomOut Resize TrivialAugmentWide"
)


def test_operators_that_change_pixels_have_a_picture(gallery: tuple[str, dict[str, str]]) -> None:
    page, missing = gallery
    for name in SEEN.split():
        assert f"pictures/{name}.png" in page, f"{name}: {missing.get(name)}"


def test_a_picture_is_what_the_operator_does(site: ModuleType, gallery: tuple[str, dict[str, str]]) -> None:
    pixels = np.asarray(Image.open(site.SOURCE / "pictures" / "RandomHorizontalFlip.png").convert("RGB")).astype(int)
    width = (pixels.shape[1] - 16 - 16) // 4
    original, first = pixels[:, :width], pixels[:, width + 16 : 2 * width + 16]
    plain = ~(original == (255, 59, 48)).all(2) & ~(first[:, ::-1] == (255, 59, 48)).all(2)
    assert np.mean((original == first[:, ::-1]).all(2)[plain]) > 0.95


def test_the_reference_of_the_header_has_each_function(site: ModuleType) -> None:
    header = (ROOT / "include/leat/leat.h").read_text()
    page = site.header_reference()
    functions = re.findall(r"^LEAT_API [^(]*?(leat_\w+)\(", header, re.M)
    assert len(functions) > 50
    for name in functions:
        assert re.search(rf"\b{name}\(", page), name
    assert page.count("```") % 2 == 0


def test_the_reference_of_the_package_has_each_public_name(site: ModuleType) -> None:
    pages = site.python_reference()
    for name in leat.__all__:
        value = getattr(leat, name)
        if callable(value):
            assert f":: leat.{name}\n" in pages["reference-leat"] + "\n"
    assert "autoclass:: leat.ops.RandomResizedCrop" in pages["reference-ops"]


def test_the_reference_of_the_command_has_each_command_with_its_manual_page(site: ModuleType) -> None:
    page = site.command_reference(command())
    for name in COMMANDS:
        assert f"## leat {name}\n" in page and (site.BUILD / "man" / f"leat-{name}.1").read_text().startswith(".TH")
    assert sorted(p.name for p in (site.BUILD / "completion").iterdir()) == ["_leat", "leat", "leat.fish"]


def test_links_that_leave_the_guides_name_their_files(site: ModuleType) -> None:
    text = "[a](photos.md#x) [`examples/n.c`](../examples/n.c) [tests](../tests/python)"
    assert site.copied(text) == "[a](photos.md#x) `examples/n.c` tests (`tests/python`)"

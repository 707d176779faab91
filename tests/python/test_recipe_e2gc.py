"""recipes/e2gc.py: groups of a constant size beside a constant number of groups."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipes_support import REAL, recipe, table

import leat

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.shard("whole")


def test_arithmetic_time_and_energy_of_both_are_shown_with_their_unit(tmp_path: Path) -> None:
    recipe("e2gc")  # skipped where a package is missing
    lines = table("e2gc", tmp_path, REAL if (REAL / "fashion-mnist").is_dir() else None)
    for line, name in zip(lines[1:3], ("g = 4 groups", "groups of G = 16"), strict=True):
        assert line.startswith(name)
        macs, grouped, _, _, seconds, used, *unit = line[18:].split()
        assert int(macs.replace(",", "")) > int(grouped.replace(",", "")) > 1_000_000
        assert float(seconds) > 0 and float(used) > 0
        assert " ".join(unit) in ("CPU s (cpu_seconds)", "J (rapl)", "J (nvml)", "J (rapl+nvml)")


def test_macs_are_those_of_the_formula_and_one_net_holds_g_the_other_the_size_of_groups() -> None:
    module = recipe("e2gc")
    places = {32: 28 * 28, 64: 14 * 14, 128: 7 * 7}
    for methods, wider in ((module.METHODS, 1), (module.LARGE, 8)):
        for groups in methods.values():
            net = module.network(groups, wider)
            expected = sum((wider * c) ** 2 // groups(wider * c) * 9 * places[c] for c in module.WIDTHS)
            assert module.macs(net)[1] == expected
    convolutions = [
        [m for m in module.network(groups).modules() if getattr(m, "groups", 1) > 1]
        for groups in module.METHODS.values()
    ]
    assert [m.groups for m in convolutions[0]] == [4, 4, 4]
    assert [m.in_channels // m.groups for m in convolutions[1]] == [16, 16, 16]


def test_both_nets_learn() -> None:
    module = recipe("e2gc")
    data = module.drawn(192)
    for groups in module.METHODS.values():
        torch.manual_seed(0)
        net = module.network(groups)
        batch = next(iter(leat.Loader(data, 192, outputs=module.OUTPUTS, framework="torch")))

        def loss() -> float:
            out = net.train()(batch["image"].view(-1, 1, 28, 28))  # noqa: B023
            return float(torch.nn.functional.cross_entropy(out.detach(), batch["label"]))  # noqa: B023

        before = loss()
        optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
        for number in range(3):
            seconds, used, unit = module.epoch(net, optimiser, data, number)
        assert loss() < 0.9 * before and seconds > 0 and used > 0 and unit

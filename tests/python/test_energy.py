"""stats()["energy"]: counters of the machine where there are any, else CPU seconds."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

import leat
from leat.loading.energy import Meter, Spent


def none(name: str) -> Any:
    raise OSError(f"{name}: cannot open shared object file")


def zone(folder: Path, path: str, name: str, used: Any, most: int = 10_000_000) -> Path:
    made = folder / path
    made.mkdir(parents=True, exist_ok=True)
    for file, value in (("name", name), ("energy_uj", used), ("max_energy_range_uj", most)):
        (made / file).write_text(f"{value}\n")
    return made


def test_packages_and_their_memory_are_counted_in_joules_and_nothing_twice(tmp_path: Path) -> None:
    package = zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    memory = zone(tmp_path, "intel-rapl:0:1", "dram", 500_000)
    other = zone(tmp_path, "intel-rapl:1", "package-1", 0)
    cores = zone(tmp_path, "intel-rapl:0:0", "core", 0)  # within the package
    whole = zone(tmp_path, "intel-rapl:2", "psys", 0)  # the package is within it
    spent = Spent(Meter(tmp_path, none))
    for where, used in (
        (package, 4_000_000),
        (memory, 1_000_000),
        (other, 250_000),
        (cores, 2 << 20),
        (whole, 9 << 19),
    ):
        (where / "energy_uj").write_text(str(used))
    told = spent.told(500)
    assert told["source"] == "rapl" and told["unit"] == "J"
    assert told["joules"] == pytest.approx(3.0 + 0.5 + 0.25)
    assert told["per_thousand_samples"] == pytest.approx(7.5)
    assert told["reason"] == "nvml: libnvidia-ml.so.1: cannot open shared object file"


def test_a_counter_that_wraps_goes_on(tmp_path: Path) -> None:
    package = zone(tmp_path, "intel-rapl:0", "package-0", 9_000_000)
    spent = Spent(Meter(tmp_path, none))
    for used in (9_500_000, 1_000_000, 8_000_000, 2_000_000):
        (package / "energy_uj").write_text(str(used))
        told = spent.told(1000)
    assert told["joules"] == pytest.approx(0.5 + 1.5 + 7 + 4) and told["per_thousand_samples"] == told["joules"]


@pytest.mark.parametrize("broken", ["no folder", "no counters", "damaged", "unreadable"])
def test_without_counters_that_can_be_read_cpu_seconds_stand_in_and_the_reason_is_told(
    tmp_path: Path, broken: str
) -> None:
    if broken == "damaged":
        zone(tmp_path, "intel-rapl:0", "package-0", "many")
    if broken == "unreadable":  # as for others than root; also for root, of whom a test has no rights to take
        (zone(tmp_path, "intel-rapl:0", "package-0", 0) / "energy_uj").unlink()
        (tmp_path / "intel-rapl:0" / "energy_uj").mkdir()
    spent = Spent(Meter(tmp_path / "missing" if broken == "no folder" else tmp_path, none))
    sum(i * i for i in range(400_000))
    told = spent.told(100)
    assert told["source"] == "cpu_seconds" and told["unit"] == "CPU s" and told["joules"] is None
    assert told["per_thousand_samples"] == pytest.approx(10 * told["cpu_s"]) and told["cpu_s"] > 0
    assert "rapl: " in told["reason"] and "nvml: " in told["reason"]


def test_counters_that_vanish_are_left_out_and_cpu_seconds_stand_in(tmp_path: Path) -> None:
    package = zone(tmp_path, "intel-rapl:0", "package-0", 0)
    spent = Spent(Meter(tmp_path, none))
    (package / "energy_uj").unlink()
    told = spent.told(10)
    assert told["source"] == "cpu_seconds" and told["joules"] is None and "energy_uj" in told["reason"]


@pytest.fixture(autouse=True)
def every_gpu_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


class FakeNvml:
    """Two GPUs, in millijoules."""

    def __init__(self, code: int = 0, silent: tuple[int, ...] = ()) -> None:
        self.used, self.code, self.silent = [1000, 2000], code, silent

    def nvmlInit_v2(self) -> int:  # noqa: N802
        return self.code

    def nvmlDeviceGetCount_v2(self, out: Any) -> int:  # noqa: N802
        out._obj.value = len(self.used)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, i: ctypes.c_uint, out: Any) -> int:  # noqa: N802
        out._obj.value = i.value + 1
        return 0 if i.value < len(self.used) else 2

    def nvmlDeviceGetUUID(self, device: ctypes.c_void_p, out: Any, n: ctypes.c_uint) -> int:  # noqa: N802
        out.value = f"GPU-{'abcd'[(device.value or 0) - 1] * 8}".encode()[: n.value]
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, out: Any) -> int:  # noqa: N802
        out._obj.value = 70 + int(uuid.removeprefix(b"MIG-"))
        return 0

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, part: ctypes.c_void_p, out: Any) -> int:  # noqa: N802
        out._obj.value = 2 if part.value in (70, 71) else 1
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, device: ctypes.c_void_p, out: Any) -> int:  # noqa: N802
        if (device.value or 0) - 1 in self.silent:
            return 3
        out._obj.value = self.used[(device.value or 0) - 1]
        return 0


def test_gpus_are_added_to_what_processors_use(tmp_path: Path) -> None:
    package = zone(tmp_path, "intel-rapl:0", "package-0", 0)
    gpus = FakeNvml()
    spent = Spent(Meter(tmp_path, lambda name: gpus))
    gpus.used = [3000, 2500]
    (package / "energy_uj").write_text("1500000")
    told = spent.told(2000)
    assert told["source"] == "rapl+nvml" and told["joules"] == pytest.approx(1.5 + 2.5) and told["reason"] is None
    assert told["per_thousand_samples"] == pytest.approx(2.0)
    alone = Spent(Meter(tmp_path / "missing", lambda name: gpus))
    gpus.used = [3000, 4500]
    assert alone.told(1000)["source"] == "nvml" and alone.told(1000)["joules"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("visible", "joules"),
    [
        *((None, 6.0), ("0,1", 6.0), ("1", 5.0), ("1,-1,0", 5.0), ("GPU-bbb", 5.0), ("GPU-aaaaaaaa, 1", 6.0)),
        *(("MIG-0,MIG-1", 5.0), ("MIG-2", 1.0), ("0,0", 1.0), ("1,7", 5.0)),
    ],
)
def test_gpus_that_cuda_hides_are_not_counted_and_one_in_parts_is_counted_once(
    visible: str | None, joules: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    gpus = FakeNvml()
    spent = Spent(Meter(tmp_path, lambda name: gpus))
    gpus.used = [2000, 7000]
    assert spent.told(1)["joules"] == pytest.approx(joules)


@pytest.mark.parametrize("visible", ["", "-1", "none", "GPU-c"])
def test_where_cuda_hides_every_gpu_there_is_no_counter(
    visible: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    told = Spent(Meter(tmp_path, lambda name: FakeNvml())).told(1)
    assert told["source"] == "cpu_seconds" and (visible or "names no GPU") in told["reason"]


def test_a_gpu_without_a_counter_is_left_out(tmp_path: Path) -> None:
    gpus = FakeNvml(silent=(0,))
    spent = Spent(Meter(tmp_path, lambda name: gpus))
    gpus.used = [5000, 2500]
    assert spent.told(1)["joules"] == pytest.approx(0.5)
    none_counts = Spent(Meter(tmp_path, lambda name: FakeNvml(silent=(0, 1)))).told(1)
    assert "nvmlDeviceGetTotalEnergyConsumption failed with code 3" in none_counts["reason"]


def test_a_driver_that_fails_is_a_reason(tmp_path: Path) -> None:
    told = Spent(Meter(tmp_path, lambda name: FakeNvml(code=9))).told(1)
    assert told["source"] == "cpu_seconds" and "nvmlInit_v2 failed with code 9" in told["reason"]


def test_a_loader_tells_what_it_was_used_since_it_was_opened(records: Path) -> None:
    with leat.Loader(leat.open(records), 16) as loader:
        assert loader.stats()["energy"]["per_thousand_samples"] is None
        list(loader)
        told = loader.stats()["energy"]
        assert told["unit"] == ("CPU s" if told["source"] == "cpu_seconds" else "J")
        used = told["cpu_s"] if told["joules"] is None else told["joules"]
        assert told["per_thousand_samples"] == pytest.approx(1000 * used / loader.stats()["samples"])

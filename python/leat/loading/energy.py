"""The energy use of a run, as far as the machine counts it: for ``loader.stats()["energy"]``.

    RAPL    processor packages and their memory: /sys/class/powercap/intel-rapl:N/energy_uj, microjoules, which wrap
    NVML    GPUs: nvmlDeviceGetTotalEnergyConsumption of libnvidia-ml.so.1, millijoules since the driver was loaded

Both count the whole device, whoever uses it. If neither can be read, CPU seconds of this process stand in: they are no
energy, and are not called so.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

POWERCAP = Path("/sys/class/powercap")
NVML = "libnvidia-ml.so.1"


class Rapl:
    """Energy of processor packages and their memory, in joules since it was opened."""

    def __init__(self, folder: Path = POWERCAP) -> None:
        """
        Raises:
            OSError: there are no counters, or they may not be read; the text says which.
        """
        self._zones: dict[Path, tuple[int, int]] = {}  # its value, and the one at which it wraps
        self._used = 0  # microjoules
        packages = [zone for zone in sorted(folder.glob("intel-rapl:*")) if _name(zone).startswith("package")]
        for zone in packages:  # a package has its cores in it; memory beside it
            memory = [part for part in sorted(folder.glob(zone.name + ":*")) if _name(part) == "dram"]
            for one in [zone, *memory]:
                self._zones[one] = (_number(one / "energy_uj"), _number(one / "max_energy_range_uj"))
        if not self._zones:
            raise OSError(f"{folder} has no counters of processor packages")

    def joules(self) -> float:
        """A counter that has gone back has wrapped once: asked more seldom than it wraps (an hour or so at 70 W), its
        whole rounds are missing.
        """
        for zone, (before, most) in self._zones.items():
            now = _number(zone / "energy_uj")
            self._used += now - before + (most if now < before else 0)
            self._zones[zone] = (now, most)
        return self._used / 1e6


def _name(zone: Path) -> str:
    try:
        return (zone / "name").read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> int:
    text = path.read_text().strip()
    if not text.isdecimal():
        raise OSError(f"{path} holds no number: {text!r:.40}")
    return int(text)


class Nvml:
    """Energy of the GPUs of this machine, in joules since it was opened."""

    def __init__(self, load: Callable[[str], Any] = ctypes.CDLL) -> None:
        """
        Raises:
            OSError: there is no NVML, or no GPU that counts.
        """
        self._library = load(NVML)
        count = ctypes.c_uint()
        self._call("nvmlInit_v2")
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        self._devices: list[ctypes.c_void_p] = []
        for i in range(count.value):
            device = ctypes.c_void_p()
            self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(i), ctypes.byref(device))
            self._devices.append(device)
        if not self._devices:
            raise OSError("NVML knows no GPU")
        self._before = self._sum()

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            code = getattr(self._library, name)(*arguments)
        except AttributeError:
            raise OSError(f"{NVML} has no {name}") from None
        if code:
            raise OSError(f"{name} failed with code {code}")

    def _sum(self) -> int:
        total = 0
        for device in self._devices:
            used = ctypes.c_ulonglong()
            self._call("nvmlDeviceGetTotalEnergyConsumption", device, ctypes.byref(used))
            total += used.value
        return total

    def joules(self) -> float:
        return (self._sum() - self._before) / 1e3


class Meter:
    """The use from here on. Counters that cannot be read are left out, with the reason."""

    def __init__(self, powercap: Path = POWERCAP, load: Callable[[str], Any] = ctypes.CDLL) -> None:
        self._lock = threading.Lock()
        self._counters: dict[str, Rapl | Nvml] = {}
        self._reasons: dict[str, str] = {}
        self._seconds = _cpu_seconds()
        for name, opened in (("rapl", lambda: Rapl(powercap)), ("nvml", lambda: Nvml(load))):
            counter: Any = self._tried(name, opened)
            if counter is not None:
                self._counters[name] = counter

    def _tried(self, name: str, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except OSError as e:
            self._counters.pop(name, None)
            self._reasons[name] = f"{e.strerror}: {e.filename}" if e.filename else str(e)
            return None

    def read(self) -> dict[str, Any]:
        """``source``, ``joules`` by counter (None: there is none), ``cpu_s``, and ``reason`` for missing counters."""
        with self._lock:
            used = {name: self._tried(name, counter.joules) for name, counter in list(self._counters.items())}
            joules = {name: value for name, value in used.items() if value is not None}
            return {
                "source": "+".join(joules) or "cpu_seconds",
                "joules": sum(joules.values()) if joules else None,
                "cpu_s": _cpu_seconds() - self._seconds,
                "reason": "; ".join(f"{name}: {why}" for name, why in self._reasons.items()) or None,
            }


def _cpu_seconds() -> float:
    """The time of all threads of this process, and of children that have ended."""
    times = os.times()
    return sum(times[:4])


class Spent:
    """The use since a loader was opened, in terms of its samples."""

    _meter: Meter | None = None  # of the process: opening counters takes a while
    _pid = 0

    def __init__(self, meter: Meter | None = None) -> None:
        self._of = meter or self._common()
        self._begun = self._of.read()

    @classmethod
    def _common(cls) -> Meter:
        if cls._meter is None or cls._pid != os.getpid():
            load = ctypes.CDLL if os.path.exists("/dev/nvidiactl") else _absent
            cls._meter, cls._pid = Meter(load=load), os.getpid()
        return cls._meter

    def told(self, samples: int) -> dict[str, Any]:
        """``stats()["energy"]``."""
        now = self._of.read()
        counted = now["joules"] is not None and now["source"] == self._begun["source"]
        joules = now["joules"] - self._begun["joules"] if counted else None
        seconds = now["cpu_s"] - self._begun["cpu_s"]
        used = seconds if joules is None else joules
        return {
            "source": now["source"] if counted else "cpu_seconds",
            "unit": "J" if counted else "CPU s",
            "joules": joules,
            "cpu_s": seconds,
            "per_thousand_samples": 1000 * used / samples if samples else None,
            "reason": now["reason"],
        }


def _absent(name: str) -> Any:
    raise OSError(f"there is no NVIDIA driver for {name}")

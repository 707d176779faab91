"""The energy use of a run, as far as the machine counts it: for ``loader.stats()["energy"]``.

    RAPL    processor packages and their memory: /sys/class/powercap/intel-rapl:N/energy_uj, microjoules, which wrap
    NVML    GPUs: nvmlDeviceGetTotalEnergyConsumption of libnvidia-ml.so.1, millijoules since the driver was loaded

Both count the whole device, whoever uses it: a part of a GPU (MIG) has no counter of its own. The GPUs are those that
CUDA_VISIBLE_DEVICES names, by UUID or by number in the order of the bus; without it, all that may be read. If there is
no counter, CPU seconds of this process stand in: they are no energy, and are not called so.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import takewhile
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
    """Energy of the GPUs that this process sees, in joules since it was opened."""

    def __init__(self, load: Callable[[str], Any] = ctypes.CDLL) -> None:
        """
        Raises:
            OSError: there is no NVML, or no GPU that counts.
        """
        self._library = load(NVML)
        self._call("nvmlInit_v2")
        self._devices: list[ctypes.c_void_p] = []
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = "NVML knows no GPU" if visible is None else f"CUDA_VISIBLE_DEVICES={visible} names no GPU"
        for name in map(str, range(self._count())) if visible is None else _until_none(visible):
            try:
                device = self._named(name)
                self._used(device)
            except OSError as e:  # it is closed to this process, or has no counter
                why = str(e)
                continue
            if device.value not in [d.value for d in self._devices]:  # as for two parts of one
                self._devices.append(device)
        if not self._devices:
            raise OSError(why)
        self._before = self._sum()

    def _count(self) -> int:
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return count.value

    def _named(self, name: str) -> ctypes.c_void_p:
        """By number, by the beginning of its UUID, or by the UUID of one of its parts."""
        if name.isdecimal():
            return self._handle("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(int(name)))
        if name.startswith("MIG-"):
            part = self._handle("nvmlDeviceGetHandleByUUID", name.encode())
            return self._handle("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", part)
        uuid = ctypes.create_string_buffer(96)
        for i in range(self._count()):
            with suppress(OSError):
                device = self._named(str(i))
                self._call("nvmlDeviceGetUUID", device, uuid, ctypes.c_uint(len(uuid)))
                if uuid.value.decode().startswith(name):
                    return device
        raise OSError(f"NVML knows no {name}")

    def _handle(self, function: str, given: Any) -> ctypes.c_void_p:
        device = ctypes.c_void_p()
        self._call(function, given, ctypes.byref(device))
        return device

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            code = getattr(self._library, name)(*arguments)
        except AttributeError:
            raise OSError(f"{NVML} has no {name}") from None
        if code:
            raise OSError(f"{name} failed with code {code}")

    def _sum(self) -> int:
        return sum(map(self._used, self._devices))

    def _used(self, device: ctypes.c_void_p) -> int:
        used = ctypes.c_ulonglong()
        self._call("nvmlDeviceGetTotalEnergyConsumption", device, ctypes.byref(used))
        return used.value

    def joules(self) -> float:
        return (self._sum() - self._before) / 1e3


def _until_none(named: str) -> Iterator[str]:
    """The names of GPUs up to the first that is none, as CUDA takes them."""
    names = (name.strip() for name in named.split(","))
    return takewhile(lambda name: name.isdecimal() or name.startswith(("GPU-", "MIG-")), names)


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

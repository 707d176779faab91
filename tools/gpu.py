"""What tools/gpu.sh does after its set-up: wheels for a machine with a card, and all that runs there.

Each part is a process of its own with a time limit, and none stops the others. A part prints what it measures as a
JSON object a line, so that one that is ended in the middle has told what it had.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "python"
MOST_BYTES = 40_000_000  # of all wheels
NEEDED = ("cloudpickle", "pytest", "hypothesis")  # conftest.py needs the last one; older ones are pure Python
MADE_OF = "sources.sha256"  # beside the wheels
PEERS = {"Pillow": "PIL", "DALI": "nvidia.dali", "nvJPEG": "torchvision", "DGL": "dgl", "PyG": "torch_geometric"}
COMPARED = ("Pillow", "DALI", "nvJPEG")
CORES = (1, 2, 4, 8, 16)
Record = dict[str, Any]
Form = Literal["original", "fast"]


# --- wheels -----------------------------------------------------------------------------------------------------------
def tree() -> str:
    """A hash of the sources that a wheel is made of."""
    found = hashlib.sha256()
    for path in sorted(p for top in ("include", "src", "cli", "python") for p in (ROOT / top).rglob("*")):
        if path.suffix in (".build", ".c", ".def", ".h", ".py"):
            found.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def prepare(folder: Path) -> int:
    """Wheels of leat and of pure-Python packages, for any Python from 3.11 on."""
    for old in folder.glob("*.whl"):
        old.unlink()
    subprocess.run([sys.executable, ROOT / "tools" / "build_wheel.py"], check=True)
    for wheel in (ROOT / "dist").glob("leat-*.whl"):
        shutil.copy(wheel, folder)
    (folder / MADE_OF).write_text(tree())
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", str(folder)]
    pure = ["--only-binary=:all:", "--platform=any", "--implementation=py", "--abi=none", "--python-version=3.11"]
    for name in NEEDED:  # NumPy, which cannot be pure, is there beside PyTorch
        subprocess.run([*pip, *pure, name], check=True)
    sizes = {wheel.name: wheel.stat().st_size for wheel in sorted(folder.glob("*.whl"))}
    for name, size in sizes.items():
        print(f"{size / 1e6:6.2f} MB  {name}")
    print(f"{sum(sizes.values()) / 1e6:6.2f} MB in {folder}, of at most {MOST_BYTES / 1e6:g} MB")
    return int(sum(sizes.values()) > MOST_BYTES)


# --- the machine ------------------------------------------------------------------------------------------------------
def there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False


def facts() -> Record:
    """In a process of its own: whoever asks for the card has a context on it to the end."""
    import numpy as np
    import torch

    import leat

    cuda = torch.cuda.is_available()
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "leat": leat.__version__,
        "card": torch.cuda.get_device_name() if cuda else None,
        "memory_mib": torch.cuda.get_device_properties(0).total_memory >> 20 if cuda else None,
        "driver": driver() if cuda else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "cpu": model[1] if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "peers": {name: there(module) for name, module in PEERS.items()},
    }


def driver() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, check=True, text=True, stdout=subprocess.PIPE, timeout=30).stdout.split()[0]
    except (OSError, IndexError, subprocess.SubprocessError):
        return "unknown"


# --- photos on the processor ------------------------------------------------------------------------------------------
def png(pixels: Any) -> bytes:
    import numpy as np

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width, _ = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], 1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 1)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def made_photo(rng: Any) -> Any:
    """Soft colours with grain, 640 x 512: as a JPEG of 500 pixels it has some 50 kB, as ImageNet's photos have half."""
    import numpy as np

    soft = rng.integers(0, 256, (9, 11, 3)).astype(np.float32)
    for axis, n in ((0, 512), (1, 640)):
        at = np.arange(n) / 64
        low, part = at.astype(int), (at % 1).reshape([-1 if a == axis else 1 for a in range(3)])
        soft = np.take(soft, low, axis) * (1 - part) + np.take(soft, low + 1, axis) * part
    return np.clip(soft + rng.normal(0, 12, soft.shape), 0, 255).astype(np.uint8)


def write_photos(folder: Path, different: int, times: int, *forms: Form) -> dict[Form, Path]:
    """The same JPEGs in these forms. leat encodes them: larger photos are resized and stored as JPEG."""
    import numpy as np

    import leat

    fields: dict[str, Any] = {"image": "image"}
    made = folder / "made.leat"
    rng = np.random.default_rng(0)
    with leat.Writer(made, fields, max_side=500, quality=90) as w:
        for _ in range(different):
            w.add(image=png(made_photo(rng)))
    jpegs = [row["image"] for row in leat.open(made)]
    for form in forms:
        with leat.Writer(folder / f"{form}.leat", fields, photos=form) as w:
            for i in range(different * times):
                w.add(image=jpegs[i % different])
    return {form: folder / f"{form}.leat" for form in forms}


def rate(path: Path, cores: int, seconds: float) -> Record:
    """Photos per second of whole epochs after one that warms up, and the energy that was counted."""
    import leat
    from leat import ops

    chain = [ops.Decode("RGB"), ops.RandomResizedCrop(224), ops.RandomHorizontalFlip()]
    chain.append(ops.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    options: dict[str, Any] = {"batch_size": 64, "shuffle": True, "seed": 0, "num_threads": cores, "framework": "numpy"}
    with leat.Loader(leat.open(path), outputs={"image": chain}, **options) as loader:
        sum(batch.size for batch in loader)
        began, cpu_s, photos = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - began < seconds:
            photos += sum(batch.size for batch in loader)
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
        return {
            "cores": cores,
            "photos_per_s": round(photos / wall_s, 1),
            "cores_busy": round(cpu_s / wall_s, 2),
            "energy": loader.stats()["energy"],
        }


def photos(short: bool) -> int:
    usable = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as work:
        forms = write_photos(Path(work), *((8, 2) if short else (64, 32)), "original", "fast")
        for cores in CORES[: 2 if short else None]:
            if cores > len(usable):
                print(json.dumps({"cores": cores, "reason": f"{len(usable)} cores are here"}), flush=True)
                continue
            os.sched_setaffinity(0, usable[:cores])  # threads that start from now on
            for form, path in forms.items():
                print(json.dumps({"form": form} | rate(path, cores, 0.2 if short else 2)), flush=True)
    return 0


# --- parts ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Part:
    """
    Args:
        command: it runs in the root of the tree.
        limit_s: then its processes are ended.
    """

    name: str
    title: str
    command: list[str]
    limit_s: float


def parts(card: bool) -> list[Part]:
    """What matters most comes first. On a card the limits together are within eight minutes; a rehearsal may run beside
    anything, so that its limits are wider.
    """
    python = [sys.executable]
    files = [str(f) for f in sorted(TESTS.glob("test_*.py")) if "mark.card" in f.read_text()]
    rows = ["--device", "cuda"] if card else ["--device", "cpu", "--mib", "8", "--out-mib", "1", "--rounds", "3"]
    steps = "200" if card else "5"
    measured = ["photos"] if card else ["photos", "--short"]
    given = ["--seconds", "2"] if card else ["--without-card"]
    found = [
        Part("tests", "tests", [*python, "-m", "pytest", "-v", "-rs", "-m", "card", *NO_CACHE, *files], 55),
        Part("rows", "rows by random ids", [*python, "bench/device_rows.py", "--json", *rows], 30),
        Part("steps", "photos into steps", [*python, "bench/device_photos.py", *given], 80),
        Part("jobs", "four trainings", [*python, "bench/device_jobs.py", *given], 90),
        Part("features", "features of neighbours", [*python, "examples/graph_features.py", "--steps", steps], 15),
        Part("photos", "photos on the processor", [*python, "tools/gpu.py", *measured], 35),
        *(recipe(name, card, *times) for name, times in RECIPES.items()),
    ]
    return found if card else [replace(part, limit_s=300) for part in found]


RECIPES = {"e2gc": (25, 40), "adadagrad": (10, 35), "g2sd": (10, 55), "conadv": (10, 45)}  # seconds, limit


def recipe(name: str, card: bool, seconds: int, limit_s: float) -> Part:
    """No pair of epochs, and no seed but the first one, begins after these seconds."""
    given = ["--device", "cuda", "--size", "large", "--seconds", str(seconds)] if card else ["--size", "tiny"]
    return Part(name, f"recipes/{name}.py", [sys.executable, "bench/recipes.py", name, *given], limit_s)


NO_CACHE = ("-p", "no:cacheprovider", "-o", "faulthandler_timeout=60", "--shard", "gate")


def run_part(part: Part, out: Path, left_s: float) -> Record:
    """Its output goes into OUT/NAME.log."""
    if left_s < 5:
        return {"status": "left out", "seconds": 0.0, "records": [], "reason": "the time is used up"}
    log, began = out / f"{part.name}.log", time.monotonic()
    limit_s = min(part.limit_s, left_s)
    with log.open("w") as file:
        process = subprocess.Popen(part.command, cwd=ROOT, stdout=file, stderr=file, start_new_session=True)
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_group(process)
    text = log.read_text(errors="replace")
    found: Record = {"status": "failed" if code else "passed", "seconds": round(time.monotonic() - began, 1)}
    found["records"] = RECORDS.get(part.name, json_lines)(text)
    if code is None:
        found |= {"status": "out of time", "reason": f"ended after {limit_s:.0f} s"}
    elif code:
        found["reason"] = f"exit code {code}: {(text.strip().splitlines() or ['no output'])[-1][:200]}"
    return found


def end_group(process: subprocess.Popen[bytes]) -> None:
    """The part, and whatever it has left running."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def json_lines(text: str) -> list[Record]:
    found = list[Record]()
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except ValueError:  # cut, as the part was ended
                continue
    return found


def test_counts(text: str) -> list[Record]:
    """The counts of the last line; without one, as the tests were ended, those of theirs."""
    counts = re.findall(r"(\d+) (passed|failed|errors?|skipped)\b", (text.strip().splitlines() or [""])[-1])
    done = Counter(kind.lower() for kind in re.findall(r"::.* (PASSED|FAILED|ERROR|SKIPPED)\b", text))
    return [{kind: int(n) for n, kind in counts} or dict(done)] if counts or done else []


def feature_seconds(text: str) -> list[Record]:
    found = re.findall(r"^(plain torch|leat): .*features ([\d.]+) s$", text, re.M)
    return [{name: float(seconds) for name, seconds in found}] if len(found) == 2 else []


RECORDS = {"tests": test_counts, "features": feature_seconds}


# --- what was found ---------------------------------------------------------------------------------------------------
def aims(results: dict[str, Record]) -> list[tuple[str, bool]]:
    """What a card should reach, and whether it did."""
    found = list[tuple[str, bool]]()
    records = results["rows"]["records"]
    link = next((r["link_gb_s"] for r in records if "link_gb_s" in r), None)
    for r in (r for r in records if "bytes" in r):
        ratio = r["leat_over"].get("pinned copy")
        if ratio and r["bytes"] >= 256:
            found.append((f"rows of {r['bytes']} B: {ratio[1]:.2f}x the copy, at least 1.5x", ratio[1] >= 1.5))
        for way, gb_s in r["gb_s"].items() if link and r["bytes"] >= 512 else ():
            if way.startswith("leat"):
                share, ids = gb_s / link, way.removeprefix("leat")
                found.append((f"rows of {r['bytes']} B{ids}: {share:.0%} of the link, at least 90%", share >= 0.9))
    for r in results["features"]["records"]:
        if r["plain torch"]:
            less = 1 - r["leat"] / r["plain torch"]
            found.append((f"features of neighbours: {less:.0%} less time, at least 40%", less >= 0.4))
    return found + aims_of_photos(results)


def aims_of_photos(results: dict[str, Record]) -> list[tuple[str, bool]]:
    found = list[tuple[str, bool]]()
    rates = {r["way"]: r.get("photos_per_s") for r in results["steps"]["records"] if "way" in r}
    there, core = (rates.get(f"decoded {by}, alone") for by in ("on the card", "by one core"))
    if there:
        found.append((f"decoding on the card: {there:,.0f} photos/s, at least 100,000", there >= 100_000))
    if there and core:
        found.append((f"decoding on the card: {there / core:.1f}x one core, at least 20x", there >= 20 * core))
    coded, pixels = (rates.get(f"leat, {way} JPEGs") for way in ("coded", "pixels of"))
    if coded and pixels:
        text = f"JPEGs as they came, coded: {coded / pixels:.2f}x the photos/s of pixels, at least 1x"
        found.append((text, coded >= pixels))
    for r in results["steps"]["records"]:
        if r.get("way", "").startswith("leat, ") and "idle" in r:
            found.append((f"{r['way']}: the card idles {r['idle']:.1%}, under 1%", r["idle"] < 0.01))
        if r.get("way") == "pixels, alone" and r.get("of_link"):
            found.append((f"pixels: {r['of_link']:.0%} of a plain copy's rate, at least 95%", r["of_link"] >= 0.95))
    for r in (r for r in results["jobs"]["records"] if "of_one" in r):
        ratio, time_ = r["of_one"]["bytes"], r["of_one"]["time"]
        found.append((f"{r['jobs']} trainings of one port: {time_:.2f}x the time of one, at most 1.05x", time_ <= 1.05))
        text = f"{r['jobs']} trainings of one port: {ratio:.2f}x the bytes of one over the link, at most 1.1x"
        found.append((text, ratio <= 1.1))
    return found


def lines_of(name: str, r: Record) -> list[str]:
    """The lines of the table for one record."""
    if "reason" in r:
        return [f"{r['cores']:>2} cores: not measured, {r['reason']}"]
    if name == "tests":
        return [", ".join(f"{n} {kind}" for kind, n in r.items())]
    if name == "features":
        return [f"{way}: {seconds:.3f} s" for way, seconds in r.items()]
    if "link_gb_s" in r and "way" not in r:
        return [f"a copy of pinned memory: {r['link_gb_s']:.2f} GB/s"]
    if name == "rows":
        ways = []
        for way, gb_s in r["gb_s"].items():
            low, middle, high = r["leat_over"].get(way, (0, 0, 0))
            ways.append(f"{way} {gb_s:.2f}" + (f" (leat {middle:.2f}x, {low:.2f} to {high:.2f})" if middle else ""))
        return [f"{r['bytes']:>5} B  " + "  ".join(ways) + "  GB/s"]
    if name == "photos":
        return [
            f"{r['cores']:>2} cores, {r['form']}: {r['photos_per_s']:,.0f} photos/s, {r['cores_busy']:.1f} cores busy"
        ]
    if name in RECIPES:
        return [", ".join(f"{what} {in_words(value)}" for what, value in r.items())]
    return lines_of_way(r)


def lines_of_way(r: Record) -> list[str]:
    """One of the loaders that bench/device_photos.py and bench/device_jobs.py compare."""
    if "way" not in r:
        return [f"a plain copy of a pinned batch of {r['batch']}: {r['plain_copy_gb_s']:.2f} GB/s"]
    if "photos_per_s" not in r:
        return [f"{r['way']}: {'absent, ' + r['absent'] if 'absent' in r else 'FAILED, ' + r['failed']}"]
    told = [f"{r['photos_per_s']:,.0f} photos/s"]
    if "cpu_ms" in r:
        told.append(f"{r['cpu_ms']:.2f} ms of CPU each")
    if r.get("idle") is not None:
        told.append(f"the card idles {r['idle']:.0%}")
    if r.get("of_link"):
        told.append(f"{r['link_gb_s']:.2f} GB/s over the link, {r['of_link']:.0%} of a plain copy's")
    if r.get("decoded"):
        told.append(f"the card decoded {r['decoded']:,}")
    if "jobs" in r and r.get("link_bytes"):
        told.append(f"{r['link_bytes'] / 1e3:.1f} kB over the link each")
    if "of_one" in r:
        told.append(f"{r['of_one']['bytes']:.2f}x the bytes and {r['of_one']['time']:.2f}x the time of one training")
    way = r["way"] + (f", {r['jobs']} training{'s' * (r['jobs'] != 1)}" if "jobs" in r else "")
    return [f"{way}: {', '.join(told)}"]


def in_words(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {in_words(each)}" for name, each in value.items())
    if isinstance(value, list):
        return " to ".join(map(in_words, value))
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"


def energy_line(records: list[Record]) -> str:
    told = [r["energy"] for r in records if "energy" in r]
    if not told:
        return "energy: not measured"
    used = statistics.median(e["per_thousand_samples"] for e in told)
    card = "counted" if "nvml" in told[-1]["source"] else "absent"
    return (
        f"energy: source {told[-1]['source']}, {used:.2f} {told[-1]['unit']} a thousand photos (median); the card's "
        f"counter (NVML) is {card}" + (f"; {told[-1]['reason']}" if told[-1]["reason"] else "")
    )


def table(machine: Record, results: dict[str, Record], card: bool) -> list[str]:
    lines = [
        f"leat {machine['leat']}, {machine['card'] or 'no card'}"
        + (f" ({machine['memory_mib']} MiB, driver {machine['driver']})" if machine["card"] else ""),
        f"torch {machine['torch']} (CUDA {machine['cuda']}), NumPy {machine['numpy']}, Python {machine['python']}",
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}",
    ]
    for name, is_there in machine["peers"].items():
        beside = "there" if name in COMPARED else "there, and nothing here is compared with it yet"
        lines.append(f"{name}: {beside if is_there else 'absent'}")
    for part in parts(card):
        r = results[part.name]
        lines += ["", f"{part.title}: {r['status']}, {r['seconds']} s" + (f" ({r['reason']})" if "reason" in r else "")]
        for record in r["records"]:
            try:
                lines += [f"    {line}" for line in lines_of(part.name, record)]
            except (KeyError, ValueError):  # a line of somebody else's
                lines.append(f"    {json.dumps(record)}")
    return [*lines, "", energy_line(results["photos"]["records"])]


def verdict(results: dict[str, Record], card: bool) -> tuple[int, str]:
    """Exit code and last line."""
    bad = [f"{name} {r['status']}" for name, r in results.items() if r["status"] != "passed"]
    skipped = sum(r.get("skipped", 0) for r in results["tests"]["records"])
    if card and skipped:
        bad.append(f"{skipped} tests skipped")
    if bad:
        return 1, "verdict: " + ", ".join(bad)
    if not card:
        return 0, "verdict: all ran, in short form and without a card: no figure here is one of a card"
    reached = [ok for _, ok in aims(results)]
    return 0, f"verdict: all ran and passed; {sum(reached)} of {len(reached)} aims are reached"


def run(out: Path, card: bool, budget_s: float, wheels: Path | None) -> int:
    began = time.monotonic()
    made_of = wheels / MADE_OF if wheels else None
    if made_of and not (made_of.is_file() and made_of.read_text() == tree()):
        print(f"leat: the wheels of {wheels} are of other sources than these: tools/gpu.sh --prepare {wheels}")
        return 2
    out.mkdir(parents=True, exist_ok=True)
    probe = Part("facts", "the machine", [sys.executable, str(Path(__file__)), "facts"], 90)
    asked = run_part(probe, out, budget_s)
    if not asked["records"]:
        print(f"leat: the machine cannot be asked: {asked.get('reason', '')}\n{(out / 'facts.log').read_text()}")
        return 2
    (out / "facts.log").unlink()
    machine = asked["records"][0]
    if card and not machine["card"]:
        print("leat: PyTorch sees no card here; --without-card rehearses what needs none")
        return 2
    results: dict[str, Record] = {}
    told: Record = {"machine": machine, "with_card": card, "parts": results}
    for part in parts(card):
        print(f"{part.title} ...", flush=True)
        results[part.name] = run_part(part, out, budget_s - (time.monotonic() - began))
        (out / "gpu.json").write_text(json.dumps(told, indent=1) + "\n")  # whatever becomes of the next one
    lines, (code, last) = table(machine, results, card), verdict(results, card)
    found = [{"aim": text, "reached": ok} for text, ok in aims(results)] if card else []
    lines += [f"{'reached' if aim['reached'] else 'MISSED '}  {aim['aim']}" for aim in found]
    lines.append(f"{last} ({time.monotonic() - began:.0f} s)")
    told |= {"aims": found, "verdict": last, "code": code}
    (out / "gpu.json").write_text(json.dumps(told, indent=1) + "\n")
    (out / "gpu.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("prepare").add_argument("folder", type=Path)
    verbs.add_parser("facts")
    verbs.add_parser("photos").add_argument("--short", action="store_true")
    running = verbs.add_parser("run")
    running.add_argument("out", type=Path)
    running.add_argument("--without-card", action="store_true", help="a rehearsal: short, on the processor")
    running.add_argument("--budget-s", type=float, default=480, help="what has not begun by then is left out")
    running.add_argument("--wheels", type=Path, help="those that tools/gpu.sh has installed")
    given = parser.parse_args()
    if given.verb == "prepare":
        return prepare(given.folder)
    if given.verb == "facts":
        print(json.dumps(facts()))
        return 0
    if given.verb == "photos":
        return photos(given.short)
    return run(given.out, not given.without_card, given.budget_s, given.wheels)


if __name__ == "__main__":
    sys.exit(main())

"""Several trainings on one card: a loader for each of them, or one port for all, as JSON lines.

    python bench/device_jobs.py [--jobs 4] [--cores 4] [--seconds 4] [--batch 128] [--ways NAME ...] [--without-card]

Each training is a process with a network of its own, and reads photos of the same pack (device_photos.py has photos,
copies and steps). The network is so small, and leat has so few cores, that trainings wait for photos: what a loader
costs is what is compared, not how several trainings share the card. Loaders share the cores among them; the port's has
all of these. For each way there is a line:

    photos_per_s   of all trainings together, in the measured seconds
    cpu_ms         CPU time of all processes, the port's too, for a photo that is trained on
    link_bytes     of all processes, that went over the link for a photo that is trained on
    shared_bytes   of such a photo, that a training found on the card already

The port on the card has a line for one training before that of several, whose `of_one` says how many times the bytes
over the link and the time of that one all of them take: its bytes should be enough for all.

A way that needs what is absent is named, with the reason. --without-card: tiny, on the processor, to try this file.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import queue
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

import leat

sys.path.insert(0, str(Path(__file__).resolve().parent))
from device_photos import Batches, Counted, Photos, leat_options, prefetched, spell, training  # noqa: E402

PORT = "jobs"
WAIT_S = 40  # for processes that import PyTorch and open the card
OWN, ONE, OWN_THERE, ONE_THERE = "a loader each", "one port", "a loader each, on the card", "one port, on the card"

WAYS = (ONE_THERE, OWN_THERE, ONE, OWN)  # what matters most comes first: time may be short
LINK = ("link_bytes", "shared_bytes")


# --- processes --------------------------------------------------------------------------------------------------------
def opened(way: str, given: argparse.Namespace) -> Any:
    there = {"device": given.device} if way in (OWN_THERE, ONE_THERE) else {}
    if way in (OWN, OWN_THERE):
        return leat.Loader(**leat_options(given.pack, given.batch, max(1, given.cores // given.jobs)), **there)
    return leat.attach(PORT, framework="torch", folder=given.folder, patience=WAIT_S, **there)


def batches_of(way: str, source: Any, given: argparse.Namespace) -> Batches:
    if way in (OWN_THERE, ONE_THERE):
        return Counted(source)
    return prefetched((batch["image"] for epoch in itertools.repeat(source) for batch in epoch), given.device)


def trained(way: str, given: argparse.Namespace, start: Any, results: Any) -> None:
    torch.set_num_threads(1)
    step = training(given.device, (16,), shrunk=4)
    with opened(way, given) as source:
        batches = batches_of(way, source, given)
        spell(batches, step, given.device, given.seconds / 2)  # warms up
        start.wait(WAIT_S)
        cpu_s = time.process_time()
        found = spell(batches, step, given.device, given.seconds)
        results.put(found | {"cpu_s": time.process_time() - cpu_s})


def served(way: str, given: argparse.Namespace, ready: Any, start: Any, results: Any) -> None:
    there = {"device": given.device} if way == ONE_THERE else {}
    options = leat_options(given.pack, given.batch, given.cores)
    with leat.Port(leat.Loader(**options), PORT, folder=given.folder, **there) as port:

        def link_bytes() -> int:
            return int(port.stat().get("device", {}).get("bytes", 0))

        ready.set()
        start.wait(WAIT_S)
        cpu_s, before = time.process_time(), link_bytes()
        time.sleep(given.seconds)
        found = {"cpu_s": time.process_time() - cpu_s, "link_bytes": link_bytes() - before}
        results.put({"photos": 0, "photos_per_s": 0.0, **found})
        port.wait(WAIT_S)  # its readers may not be done


def measured(way: str, given: argparse.Namespace) -> dict[str, Any]:
    spawn = multiprocessing.get_context("spawn")
    port = way in (ONE, ONE_THERE)
    start, ready, results = spawn.Barrier(given.jobs + port), spawn.Event(), spawn.Queue()
    with ExitStack() as stack:

        def begin(function: Any, *more: Any) -> None:
            process = spawn.Process(target=function, args=(way, given, *more, start, results), daemon=True)
            process.start()
            stack.callback(process.join)
            stack.callback(process.kill)

        if port:
            begin(served, ready)
            ready.wait(WAIT_S)
        for _ in range(given.jobs):
            begin(trained)
        found = [results.get(timeout=WAIT_S + given.seconds) for _ in range(given.jobs + port)]
    photos = sum(each["photos"] for each in found)
    told = {name: [each[name] for each in found if each.get(name) is not None] for name in LINK}
    return {
        "photos_per_s": sum(each["photos_per_s"] for each in found),
        "cpu_ms": 1e3 * sum(each["cpu_s"] for each in found) / photos,
        **{name: sum(values) / photos for name, values in told.items() if values},
    }


def of_one(found: dict[str, Any], jobs: int, alone: dict[str, Any]) -> dict[str, Any]:
    """The bytes and the time that several trainings of a port take, for one training's."""
    if not found.get("link_bytes") or not alone.get("link_bytes"):
        return {}
    bytes_, time_ = found["link_bytes"] / alone["link_bytes"], alone["photos_per_s"] / found["photos_per_s"]
    return {"of_one": {"bytes": jobs * bytes_, "time": jobs * time_}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--cores", type=int, default=4, help="that decode, for all trainings together")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--ways", nargs="+", choices=WAYS)
    parser.add_argument("--without-card", action="store_true")
    given = parser.parse_args()
    given.cores = min(given.cores, len(os.sched_getaffinity(0)))
    if given.without_card:
        given.device, given.jobs, given.seconds, given.batch = "cpu", 2, 0.2, 4
    elif not torch.cuda.is_available():
        parser.error("PyTorch sees no card here: --without-card tries this file")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        given.folder, given.workers = folder, 0
        given.pack = Photos(Path(folder), given, "original").packs["original"]
        many, alone = given.jobs, dict[str, Any]()
        for way in given.ways or WAYS:
            for given.jobs in (1, many) if way == ONE_THERE else (many,):
                try:
                    found = measured(way, given)
                except queue.Empty:
                    found, failed = {"failed": "a process gave no result: see above"}, True
                print(json.dumps({"way": way, "jobs": given.jobs} | found | of_one(found, many, alone)), flush=True)
                alone = found if given.jobs == 1 else {}
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

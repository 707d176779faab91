"""Runs the checks of the project and ends with a verdict.

    python tools/check.py                  the gate: what every change passes
    python tools/check.py --since REF      the part of it that a change since that commit touches
    python tools/check.py --shard NAME     one deep shard
    python tools/check.py --ci             the gate, and the shard that goes with HEAD
    python tools/check.py --all            the gate and every shard; what has passed since its files changed is left out
    python tools/check.py --only STEP ...

Steps run in lanes, side by side: one lane computes while the other one waits. A line says when a step begins and ends;
in between, where the steps under way stand. A step that fails shows its output and the others still run. Then comes
where the time went (build/log/times.json). The last line counts: `N passed, N failed`. Tests in C are counted one by
one from their TAP output, tests in Python from pytest's report; any other step counts as one. tools/checks/ has the
parts: shards.py which steps are of which tier, steps.py what each does.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import threading
import time

from checks import shards, since
from checks.running import LOGS, ROOT, Count, Failed, Seconds, end, here, running, say, stopped
from checks.steps import STEPS, options
from checks.times import Times, calibrate

BEAT_S = 30  # how often the steps under way say where they stand
TITLES = {name: title for name, (title, _) in STEPS.items()}
under_way: set[str] = set()


def run_step(name: str, total: Count, times: Times) -> None:
    here.name, here.cpu_s, here.built = name, 0.0, None
    begin = time.monotonic()
    title, function = STEPS[name]
    say(f"{title} ...")
    under_way.add(name)
    try:
        c = function()
    except Failed as e:
        c = Count(0, 1, 0, str(e))
    except Exception as e:  # a mistake of this tool, or of what it reads: it stops no other step
        c = Count(0, 1, 0, repr(e))
    under_way.discard(name)
    total.add(c)
    took = time.monotonic() - begin
    times.steps[name] = Seconds(took, here.cpu_s)
    if here.built:
        times.steps[f"{name}, its build"] = here.built
    times.tests |= c.tests
    said = f"{title:70} {c.passed:5} passed {c.failed:3} failed {c.skipped:3} skipped {took:6.0f} s"
    say(said + (f"\n{c.text}" if c.text else ""))


def run_lanes(lanes: list[list[str]], times: Times) -> Count:
    total = Count()

    def run_lane(lane: list[str]) -> None:
        for name in lane:
            run_step(name, total, times)

    threads = [threading.Thread(target=run_lane, args=(lane,), daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    spoke = time.monotonic()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.1)
        if time.monotonic() > spoke + BEAT_S:
            spoke = time.monotonic()
            for name in sorted(under_way):
                say(f"  {where(name)}")
    return total


def where(name: str) -> str:
    """The last line that the step has printed."""
    logs = sorted(LOGS.glob(f"{name}*.log"), key=lambda log: log.stat().st_mtime)
    lines = [line for line in logs[-1].read_text(errors="replace")[-2000:].splitlines() if line.strip()] if logs else []
    return f"{name}: {lines[-1].strip()[-80:] if lines else ''}"


def run_shard(name: str, times: Times) -> Count:
    shard = shards.SHARDS[name]
    say(f"shard {name} (tools/check.py --shard {name} --seed {options.seed}): {shard.title}")
    began_with = shards.fingerprint(shard.paths)
    total = run_lanes(shard.lanes, times)
    if not total.failed:
        shards.keep_passed(name, shard.paths, began_with)
    return total


def run_gate(times: Times) -> Count:
    began_with = shards.fingerprint("")
    total = run_lanes(shards.GATE, times)
    if not total.failed:
        shards.keep_passed("gate", "", began_with)
    return total


def set_up_before() -> dict[str, Seconds]:
    """What tools/setup.sh took for this run: it leaves its wall and CPU seconds in a file, which is read once."""
    left = ROOT / "build" / "setup-seconds"
    if not left.exists():
        return {}
    wall, cpu = map(float, left.read_text().split())
    left.unlink()
    return {"set-up": Seconds(wall, cpu)}


def chosen(o: argparse.Namespace, times: Times) -> Count:
    """Runs what the command line asks for."""
    total = Count()
    if o.only:
        return run_lanes([list(o.only)], times)
    if o.since:
        touched = since.touched(o.since)
        options.c_tests, options.py_tests = touched.c_tests, touched.py_tests
        say(touched.text())
        return run_lanes(touched.lanes(), times)
    if o.shard:
        return run_shard(o.shard, times)
    if not (o.all and shards.passed("gate", "")):
        total.add(run_gate(times))
    if o.ci:
        total.add(run_shard(shards.of_commit(shards.head()), times))
    for name, shard in shards.SHARDS.items() if o.all else ():
        if shards.passed(name, shard.paths):
            say(f"shard {name} has passed with these files")
            total.add(Count(1))
        else:
            total.add(run_shard(name, times))
    return total


def main() -> int:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = a.add_mutually_exclusive_group()
    what.add_argument("--only", nargs="+", choices=STEPS, metavar="STEP", help=" ".join(STEPS))
    what.add_argument("--since", metavar="REF", help="what a change touches: the inner loop")
    what.add_argument("--shard", choices=shards.SHARDS, help="one deep shard")
    what.add_argument("--ci", action="store_true", help="the gate, and the shard that goes with HEAD")
    what.add_argument("--all", action="store_true", help="the gate and every shard that has not passed")
    a.add_argument("--seed", type=int, help="of what a shard draws; without it, it is HEAD's")
    a.add_argument("--store-times", action="store_true", help="later runs are compared with the times of this one")
    o = a.parse_args()
    here.name = "check"
    if o.only:  # small, and beside a longer run, whose logs stay
        times = Times(1.0)
    else:
        shutil.rmtree(LOGS, ignore_errors=True)
        options.seed = shards.seed_of(shards.head()) if o.seed is None else o.seed
        times = Times(calibrate())
        times.steps |= set_up_before()
    total = chosen(o, times)
    if not o.only:
        times.keep()
    if o.store_times:
        times.store()
    print(times.table(TITLES))
    print(
        f"{'everything passed' if not total.failed else 'something failed: see above'}"
        + (f"; {total.skipped} skipped, for want of what their machine or LEAT_DATA lacks" if total.skipped else "")
    )
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        stopped.set()
        for process in list(running):
            end(process)
        print("\ninterrupted; what was built is kept")
        sys.exit(130)

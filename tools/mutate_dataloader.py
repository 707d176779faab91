#!/usr/bin/env python3
"""Shows that the property test of the DataLoader finds faults: puts known ones back, one at a time.

Each is a small change of a copy of the installed package. The examples of an area are drawn from the first on until
one fails, and that one has to pass without the fault; the table says which it is and what it saw. A fault that nothing
shows, or a change that no longer fits the code, is a failure of this tool.

    .venv/bin/python tools/mutate_dataloader.py [--only NAME ...] [--examples N]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "python"


@dataclass(frozen=True)
class Mutation:
    """A fault: in `file` of the package, the `old` text becomes the `new` one.

    Args:
        where: the area of the property test that shows it, or a test in tests/python where none can: what takes several
            processes of a framework, or a script's end.
    """

    name: str
    where: str
    file: str
    old: str
    new: str


MUTATIONS = [
    Mutation(
        "a sampler begins before the generators of the state are set",
        "resume in process",
        "torch/reading.py",
        "        self._set_before(at)\n        if self.seeded:\n",
        "        if self.seeded:\n",
    ),
    Mutation(
        "persistent workers are shared by all loaders of a data set object",
        "workers",
        "torch/sharing.py",
        'if loader.persistent_workers != "shared" or',
        "if not loader.persistent_workers or",
    ),
    Mutation(
        "the state of a sampler is not saved at an epoch's end",
        "resume in process",
        "torch/reading.py",
        '                found["sampler"] = self.stateful.state_dict()\n',
        "                pass\n",
    ),
    Mutation(
        "the state of a sampler is not saved before the first batch",
        "resume in process",
        "torch/reading.py",
        "        if self.stateful is not None or self.began[1] is not None:\n",
        "        if step and (self.stateful is not None or self.began[1] is not None):\n",
    ),
    Mutation(
        "a generator that only the sampler has is not seen, where Accelerate dispatches batches",
        "accelerate",
        "torch/dataloader.py",
        "        return type(sampler) is RandomSampler and sampler.generator is None\n",
        "        return type(sampler) is RandomSampler\n",
    ),
    Mutation(
        "after a resume, a sampler that draws for each batch goes on with other draws",
        "resume in process",
        "torch/reading.py",
        """        for name, state in saved.get("now", {}).items():
            self._set(name, state)
        if self.theirs and""",
        "        if self.theirs and",
    ),
    Mutation(
        "generators inside samplers are not found",
        "resume in process",
        "torch/generators.py",
        "    return found | dict(inside)\n",
        "    return found\n",
    ),
    Mutation(
        "a sampler's own count of epochs is lost",
        "resume in process",
        "torch/reading.py",
        '            set_attributes(self.loader, saved["attributes"], None if "count" in saved else False)\n',
        "",
    ),
    Mutation(
        "how far a sampler is read ahead of workers depends on the window",
        "workers",
        "torch/iteration.py",
        "        return int((self.loader.prefetch_factor or 2) * self.loader.num_workers)\n",
        "        return window\n",
    ),
    Mutation(
        "tensors of types that NumPy lacks cannot be sent",
        "workers",
        "workers/transport.py",
        'getattr(torch, f"int{8 * dtype.itemsize}")',
        "{torch.bfloat16: torch.int16}[dtype]",
    ),
    Mutation(
        "workers refuse an empty batch",
        "workers",
        "workers/feed.py",
        "rows = run = max(1, planned.rows)",
        "rows = run = planned.rows",
    ),
    Mutation(
        "without workers a sampler is read one batch ahead",
        "in process",
        "torch/in_process.py",
        """        self.again = None
        if planned is None:
""",
        """        self.again = None if planned is None else next(self.plan, None)
        if planned is None:
""",
    ),
    Mutation(
        "out of order, a stream that stalls stops the others after the window",
        "streams",
        "workers/feed.py",
        "        if not self.order:\n            return True\n        head =",
        "        if not self.order:\n            return True\n"
        "        if self.read[0].step >= self.order[0].planned.step + self.window:\n            return False\n"
        "        head =",
    ),
    Mutation(
        "persistent workers of a data pipe end with the first epoch",
        "streams",
        "torch/dataloader.py",
        "        if self._piped:\n            return super().__iter__()\n",
        "",
    ),
    Mutation(
        "persistent workers of a stream draw a seed for each epoch",
        "streams",
        "torch/order.py",
        'self.drew = loaded.get("drew", True) if midway else first\n',
        'self.drew = loaded.get("drew", True) if midway else first or not loader._chained\n',
    ),
    Mutation(
        "the state of a stream is lost at the end of its epoch",
        "resume streams",
        "torch/in_process.py",
        "                self.end_states[0] = copy.deepcopy(state)\n",
        "                pass\n",
    ),
    Mutation(
        "batches that are skipped leave the generators as they were",
        "accelerate",
        "torch/reading.py",
        "            planned = self.pending.popleft() if self.pending else self._read()\n",
        "            before = {name: state_of(generator) for name, generator in self.generators.items()}\n"
        "            planned = self.pending.popleft() if self.pending else self._read()\n"
        "            for name in before if self.saved is None and planned.step < self.passed else ():\n"
        "                set_state(self.generators[name], before[name])\n",
    ),
    Mutation(
        "all ranks of Accelerate load the state of one",
        "test_frameworks_accelerate.py::"
        "test_a_saved_state_of_any_sampler_that_draws_goes_on_as_if_nothing_had_happened",
        "accelerate.py",
        "    _save_for_each_rank()\n",
        "",
    ),
    Mutation(
        "Lightning resumes a limited epoch at its end with what the limit left out",
        "test_frameworks_lightning.py::test_two_ranks_resumed_from_the_end_of_a_limited_epoch_go_on_with_the_next_one",
        "lightning.py",
        "        loader._leave_epoch()\n",
        "        pass\n",
    ),
]

CHILD = """
import sys, time
from property_cases import draw
from property_play import fault
area, first, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
begin = time.monotonic()
for number in range(first, end):
    why = fault(draw(number, area))
    if why is not None:
        print(f"{number}, {time.monotonic() - begin:.0f} s")
        print(why)
        sys.exit(1)
"""


def mutated(mutation: Mutation, package: Path, into: Path) -> None:
    """A copy of the package with that fault."""
    shutil.copytree(package, into / "leat")
    path = into / "leat" / mutation.file
    text = path.read_text()
    if text.count(mutation.old) != 1:
        raise SystemExit(
            f"{mutation.name}: {mutation.file} has not once, but {text.count(mutation.old)} times:\n{mutation.old}"
        )
    path.write_text(text.replace(mutation.old, mutation.new))


def failure(where: str, first: int, end: int, folder: Path | None = None) -> str | None:
    """What fails first, with the package in that folder in place of the installed one; None: nothing does."""
    if "::" in where:
        command = ["-m", "pytest", "-q", "-x", "--tb=line", "-p", "no:cacheprovider", str(TESTS / where)]
    else:
        command = ["-c", CHILD, where, str(first), str(end)]
    paths = os.pathsep.join([str(folder)] * (folder is not None) + [str(TESTS)])
    done = subprocess.run(
        [sys.executable, *command], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    return (done.stdout.strip() or done.stderr.strip()) if done.returncode else None


def shown(mutation: Mutation, package: Path, examples: int) -> tuple[bool, str]:
    """Whether an example shows the fault, which passes without it; and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        mutated(mutation, package, Path(folder))
        text = failure(mutation.where, 0, examples, Path(folder))
    if text is None:
        return False, "nothing fails"
    number = 0 if "::" in mutation.where else int(text.partition(",")[0])
    if failure(mutation.where, number, number + 1) is not None:
        return False, f"it fails without the fault, too: {text}"
    return True, text if "::" in mutation.where else f"example {text}"


def main() -> int:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--only", nargs="+", metavar="NAME", help="faults whose names contain one of these")
    a.add_argument("--examples", type=int, default=2000, help="the most that are drawn for a fault")
    o = a.parse_args()
    chosen = [m for m in MUTATIONS if not o.only or any(name in m.name for name in o.only)]
    where = [sys.executable, "-c", "import leat; print(leat.__path__[0])"]
    package = Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())
    missed = 0
    for mutation in chosen:
        is_shown, text = shown(mutation, package, o.examples)
        missed += not is_shown
        first, *rest = text.splitlines()
        print(f"{'found ' if is_shown else 'MISSED'} | {mutation.name} | {mutation.where} | {first}", flush=True)
        for line in rest[:3]:
            print(f"         {line:.160}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults are found")
    return missed != 0


if __name__ == "__main__":
    sys.exit(main())

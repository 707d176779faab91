"""leat trace, and loader.trace: what is recorded is what was done."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_support import leat as command
from cli_support import make_folder
from http_support import Server

import leat

N = 70
SMALL = [leat.ops.Decode(), leat.ops.Resize((32, 32))]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_folder(tmp_path_factory.mktemp("trace") / "photos", {"ant": 30, "bee": N - 30}, (64, 48))
    command("pack", folder, folder.parent / "a.leat", "--quiet")
    return folder.parent / "a.leat"


def events(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["traceEvents"]  # type: ignore[no-any-return]


def named(path: Path, name: str) -> list[dict[str, Any]]:
    return [e for e in events(path) if e["name"] == name]


def test_the_rows_of_an_epoch_are_made_by_tasks_each_once(packed: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    assert "5 batches" in command("trace", packed, "--out", out, "--batch-size", 16).stdout
    made = Counter(
        (e["args"]["step"], row)
        for e in named(out, "make rows")
        for row in range(e["args"]["first row"], e["args"]["first row"] + e["args"]["rows"])
    )
    assert set(made) == {(step, row) for step in range(5) for row in range(min(16, N - 16 * step))}
    assert set(made.values()) == {1}
    assert all(e["args"]["epoch"] == 0 for e in named(out, "make rows"))


def test_what_a_thread_does_is_nested_and_reads_lie_in_tasks(packed: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    command("trace", packed, "--out", out, "--batch-size", 8, "--num-threads", 2)
    lanes: dict[int, list[tuple[float, float, str]]] = defaultdict(list)
    for e in events(out):
        if e["ph"] == "X":
            lanes[e["tid"]].append((e["ts"], e["ts"] + e["dur"], e["name"]))
    for lane in lanes.values():
        tasks = sorted(e for e in lane if e[2] == "make rows")
        assert all(a[1] <= b[0] + 0.002 for a, b in zip(tasks, tasks[1:]))  # times have three digits behind the point
        for begin, end, name in lane:
            if name == "read":
                assert any(b <= begin + 0.002 and end <= e + 0.002 for b, e, _ in tasks)
    bytes_read = sum(e["args"]["bytes"] for e in named(out, "read"))
    assert bytes_read >= sum(len(bytes(leat.open(packed)[i]["image"])) for i in range(N))


def test_each_lane_is_a_tree_of_tasks_stages_and_decoding(packed: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    command("trace", packed, "--out", out, "--batch-size", 8, "--num-threads", 2, "--step-ms", 1)
    found = events(out)
    names = {(e["pid"], e["tid"]) for e in found if e["name"] == "thread_name"}
    lanes: dict[tuple[int, int], list[tuple[float, float, str]]] = defaultdict(list)
    for e in found:
        if e["ph"] == "X":
            lanes[e["pid"], e["tid"]].append((e["ts"], -e["dur"], e["name"]))
    assert set(lanes) <= names  # every lane has a name
    inside: Counter[str] = Counter()
    for lane in lanes.values():
        above: list[tuple[float, str]] = []
        for begin, negative, name in sorted(lane):
            end = begin - negative
            while above and above[-1][0] <= begin + 0.002:
                above.pop()
            assert not above or end <= above[-1][0] + 0.002, "two pieces of a lane cross"
            inside[" > ".join([n for _, n in above] + [name])] += 1
            above.append((end, name))
    stage = "RandomResizedCrop+RandomHorizontalFlip+Normalize"
    assert inside[f"make rows > {stage} > Decode"] == inside[f"make rows > {stage}"] >= N
    assert inside["make rows > read"] > 0 and inside["step"] == 9


def test_threads_have_names_and_the_consumer_is_one_of_them(packed: Path, tmp_path: Path) -> None:
    command("trace", packed, "--out", tmp_path / "t.json", "--batch-size", 8, "--step-ms", 1)
    names = {e["tid"]: e["args"]["name"] for e in named(tmp_path / "t.json", "thread_name")}
    consumers = {e["tid"] for e in named(tmp_path / "t.json", "step")}
    assert len(consumers) == 1 and names[consumers.pop()].startswith("consumer")
    assert {n for n in names.values() if not n.startswith("consumer")} <= {f"leat-{i}" for i in range(64)}
    assert len(named(tmp_path / "t.json", "step")) == len(named(tmp_path / "t.json", "window")) == 9


def test_the_curve_of_the_window_counts_batches(packed: Path, tmp_path: Path) -> None:
    command("trace", packed, "--out", tmp_path / "t.json", "--batch-size", 8, "--batches", 4)
    curve = named(tmp_path / "t.json", "window")
    assert len(curve) == 4
    assert all(e["args"]["ready"] >= 0 and e["args"]["being made"] >= 0 for e in curve)


def test_events_that_do_not_fit_are_counted(packed: Path, tmp_path: Path) -> None:
    done = command("trace", packed, "--out", tmp_path / "t.json", "--events", 10)
    found = json.loads((tmp_path / "t.json").read_text())
    assert found["otherData"]["dropped_events"] > 0 and "did not fit" in done.stderr
    assert len([e for e in found["traceEvents"] if e["ph"] in "XC"]) == 10


def test_reads_of_a_web_server_are_in_flight_beside_the_tasks(packed: Path, tmp_path: Path) -> None:
    with Server({"a.leat": packed.read_bytes()}) as server:
        small = {**os.environ, "LEAT_CACHE_BYTES": "65536"}  # the file does not fit: its values are read one by one
        command("trace", server.url("a.leat"), "--out", tmp_path / "t.json", "--batch-size", 8, env=small)
    flights = [e for e in events(tmp_path / "t.json") if e.get("cat") == "reads in flight"]
    begun = {e["id"]: e["ts"] for e in flights if e["ph"] == "b"}
    ended = {e["id"]: e["ts"] for e in flights if e["ph"] == "e"}
    assert begun and begun.keys() == ended.keys() and all(begun[i] <= ended[i] for i in begun)


def test_a_training_records_itself_and_a_second_time_from_the_beginning(packed: Path, tmp_path: Path) -> None:
    outputs = {"image": SMALL}
    with leat.Loader(leat.open(packed), 10, outputs=outputs, epochs=2) as loader:
        for epoch in range(2):
            with loader.trace(tmp_path / f"{epoch}.json"):
                assert len(list(loader)) == 7
        stats = loader.stats()
    rows = [sum(e["args"]["rows"] for e in named(tmp_path / f"{i}.json", "make rows")) for i in range(2)]
    assert sum(rows) <= 2 * N == stats["samples"]
    assert max(e["args"]["epoch"] for e in named(tmp_path / "0.json", "make rows")) <= 1
    assert all(e["args"]["epoch"] == 1 for e in named(tmp_path / "1.json", "make rows"))


def test_functions_of_a_program_are_calls(packed: Path, tmp_path: Path) -> None:
    outputs = {"image": [*SMALL, leat.ops.Map(lambda x: x)]}
    with leat.Loader(leat.open(packed), 10, outputs=outputs, num_threads=2) as loader, loader.trace(tmp_path / "t"):
        list(loader)
    assert {e["args"]["step"] for e in named(tmp_path / "t", "call functions")} >= set(range(7))


def test_a_trace_that_cannot_be_written_is_told_before_anything_is_run(packed: Path) -> None:
    done = command("trace", packed, "--out", "/no/such/t.json", code=2)
    assert "/no/such/t.json" in done.stderr and done.stdout == ""


# ---- worker processes ------------------------------------------------------------------------------------------------

Lane = tuple[int, int]


def traced(path: Path, packed: Path, outputs: dict[str, Any]) -> tuple[list[dict[str, Any]], list[int]]:
    """The events of an epoch, and the processes of the workers that are there at its end."""
    with leat.Loader(leat.open(packed), 10, outputs=outputs, num_threads=2, epochs=1) as loader:
        with loader.trace(path):
            assert len(list(loader)) == 7
        stats = loader.stats()
    return events(path), stats["python"]["pids"]


def lanes_of_workers(found: list[dict[str, Any]]) -> dict[Lane, list[dict[str, Any]]]:
    lanes: dict[Lane, list[dict[str, Any]]] = defaultdict(list)
    for e in found:
        if e.get("cat") == "worker":
            lanes[e["pid"], e["tid"]].append(e)
    for lane in lanes.values():
        lane.sort(key=lambda e: (e["ts"], e["dur"]))
    return lanes


def check_lanes_of_workers(found: list[dict[str, Any]], numbers: Counter[int]) -> None:
    """Names and metadata; that nothing overlaps in a lane; and that calls are computed while they are in flight."""
    own = next(e["pid"] for e in found if e["name"] == "process_name" and e["args"]["name"] == "leat")
    processes = {e["pid"]: e["args"]["name"] for e in found if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in found if e["name"] == "thread_name"}
    assert own == os.getpid()
    lanes = lanes_of_workers(found)
    names = [threads[lane] for lane in lanes]
    assert Counter(int(name.split()[1]) for name in names) == numbers
    for pid, tid in lanes:
        assert pid == tid != own
        number = threads[pid, tid].split()[1]
        assert processes[pid] == threads[pid, tid] == f"worker {number} (pid {pid})"
    calls: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for e in found:
        if e["name"] == "call functions":
            calls[e["args"]["epoch"], e["args"]["step"]].append((e["ts"], e["ts"] + e["dur"]))
    for lane in lanes.values():
        assert all(a["ts"] + a["dur"] <= b["ts"] + 0.002 for a, b in zip(lane, lane[1:]))
        for e in lane:
            if e["name"] != "wait for work":
                call = calls[e["args"]["epoch"], e["args"]["step"]]
                assert min(call)[0] <= e["ts"] and e["ts"] + e["dur"] <= max(end for _, end in call)


def rows_of_workers(found: list[dict[str, Any]], name: str) -> set[tuple[int, int]]:
    """(step, row); what is cancelled is computed again."""
    return {
        (e["args"]["step"], row)
        for e in found
        if e["name"] == name and "worker died" not in e["args"]
        for row in range(e["args"]["first row"], e["args"]["first row"] + e["args"]["rows"])
    }


EACH_ROW = {(step, row) for step in range(7) for row in range(10)}


def slowly(x: Any) -> Any:
    time.sleep(0.002)
    return x


def by_both(folder: Path) -> Callable[[Any], Any]:
    """As slowly(), of which each of two workers computes some: a value waits a while for the other one to begin."""
    main = os.getpid()

    def slowly(x: Any) -> Any:
        time.sleep(0.002)
        if os.getpid() != main:
            (folder / f"process-{os.getpid()}").touch()
            for _ in range(1000):
                if len(list(folder.glob("process-*"))) >= 2:
                    break
                time.sleep(0.01)
        return x

    return slowly


def test_each_worker_has_a_lane_of_what_it_computed(packed: Path, tmp_path: Path) -> None:
    label = [leat.ops.Map(by_both(tmp_path))]
    found, pids = traced(tmp_path / "t", packed, {"label": label, "image": SMALL})
    check_lanes_of_workers(found, Counter([0, 1]))
    assert {pid for pid, _ in lanes_of_workers(found)} == set(pids)
    assert rows_of_workers(found, "label: Map(slowly)") == EACH_ROW


def test_a_worker_without_work_waits(packed: Path, tmp_path: Path) -> None:
    outputs = {"label": [leat.ops.Map(by_both(tmp_path))]}
    with leat.Loader(leat.open(packed), 10, outputs=outputs, num_threads=2) as loader, loader.trace(tmp_path / "t"):
        for step in range(7):
            loader.batch_at(0, step)
            time.sleep(0.02)  # nobody asks for anything
    found = events(tmp_path / "t")
    check_lanes_of_workers(found, Counter([0, 1]))
    waits = [e for e in found if e["name"] == "wait for work"]
    assert waits and all(e["dur"] >= 0 and e["ts"] >= 0 for e in waits)


def half(x: Any) -> Any:
    return x // 2


def test_functions_of_whole_batches_and_results_that_are_sent_have_spans(packed: Path, tmp_path: Path) -> None:
    whole = [leat.ops.Map(by_both(tmp_path)), leat.ops.ToDtype("float32"), leat.ops.MapBatch(half)]
    texts = [leat.ops.Map(lambda _: "text of a row")]
    found, _ = traced(tmp_path / "t", packed, {"label": whole, "text": leat.Out("label", texts)})
    check_lanes_of_workers(found, Counter([0, 1]))
    rows = next(e["name"] for e in found if e["name"].startswith("label: Map(slowly)+ToDtype, text: Map("))
    assert rows_of_workers(found, rows) == EACH_ROW
    assert rows_of_workers(found, "label: MapBatch(half)") == EACH_ROW


def test_a_worker_that_died_and_the_one_in_its_place_have_lanes_of_their_own(packed: Path, tmp_path: Path) -> None:
    mark, main = tmp_path / "died", os.getpid()

    def deadly(x: Any) -> Any:
        time.sleep(0.002)
        if os.getpid() == main:  # which tries a row to see what comes of it
            return x
        (tmp_path / f"process-{os.getpid()}").touch()
        if not mark.exists() and len(list(tmp_path.glob("row-*"))) >= 30:
            with contextlib.suppress(FileExistsError):  # the other one dies
                mark.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        for _ in range(100):  # the one that is started gets rows too, of this batch or of the next
            if not mark.exists() or len(list(tmp_path.glob("process-*"))) >= 3:
                break
            time.sleep(0.01)
        (tmp_path / f"row-{time.monotonic_ns()}").touch()
        return x

    found, pids = traced(tmp_path / "t", packed, {"label": [leat.ops.Map(deadly)]})
    lost = [e for e in found if "worker died" in e.get("args", {})]
    assert mark.exists() and len(lost) == 1 and lost[0]["pid"] not in pids
    dead = next(e for e in found if e["name"] == "process_name" and e["pid"] == lost[0]["pid"])["args"]["name"]
    check_lanes_of_workers(found, Counter([0, 1, int(dead.split()[1])]))
    assert lanes_of_workers(found)[lost[0]["pid"], lost[0]["tid"]][-1] is lost[0]
    assert rows_of_workers(found, lost[0]["name"]) == EACH_ROW


def test_what_workers_did_before_the_trace_is_not_in_it(packed: Path, tmp_path: Path) -> None:
    outputs = {"label": [leat.ops.Map(slowly)]}
    with leat.Loader(leat.open(packed), 1, outputs=outputs, num_threads=2, epochs=2) as loader:
        list(loader)  # at most one window, 24 batches of N, is computed ahead
        with loader.trace(tmp_path / "t"):
            list(loader)
    found = events(tmp_path / "t")
    assert lanes_of_workers(found) and all(e["ts"] >= 0 for e in found if "ts" in e)
    assert all(e["args"]["epoch"] == 1 for e in found if e["name"] == "label: Map(slowly)")

"""Feedback by sample: what is reported, and the policies that select what the next epoch reads."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from feedback_support import N, loss_of, opened, plain_order, trace, train, write
from hypothesis import given
from hypothesis import strategies as st

import leat
from leat.feedback.table import unpacked


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("feedback") / "numbers.leat")


# ---- hard samples ----------------------------------------------------------------------------------------------------


@examples(25)
@given(
    delta=st.floats(0.01, 1.0),
    size=st.integers(1, 40),
    drop=st.booleans(),
    shuffle=st.booleans(),
    cuts=st.lists(st.integers(0, 25), max_size=3),
    kept=st.booleans(),
)
def test_the_batches_of_hard_samples_are_those_of_a_slow_reference_wherever_the_run_is_cut(
    path: str, delta: float, size: int, drop: bool, shuffle: bool, cuts: list[int], kept: bool
) -> None:
    options: dict[str, Any] = {"shuffle": shuffle, "drop_last": drop, "feedback": leat.TopBatches(delta)}
    expected = trace(plain_order(path, shuffle=shuffle), size, delta, 4, drop)
    with tempfile.TemporaryDirectory() as folder:
        options |= {"log_dir": folder} if kept else {}
        got: list[list[int]] = [[], [], [], []]
        state = None
        for cut in [*cuts, 10**6]:
            with opened(path, size, **options) as loader:
                if state is not None:
                    loader.load_state_dict(json.loads(state))
                left = cut
                while loader.epoch < 4 and left >= 0:
                    for batch in loader:
                        loader.report(batch.ids, loss=loss_of(batch.ids, batch.epoch))
                        got[batch.epoch] += batch.ids.tolist()
                        left -= 1
                        if left < 0:
                            break
                state = json.dumps(loader.state_dict())
    assert got == expected


def test_what_is_not_selected_is_neither_read_nor_decoded() -> None:
    read: list[int] = []

    class Source:
        fields = {"x": leat.field("float32", (2,))}

        def __len__(self) -> int:
            return N

        def read(self, positions: Any) -> dict[str, Any]:
            read.extend(int(i) for i in positions)
            return {"x": np.repeat(np.asarray(positions, np.float32)[:, None], 2, 1)}

    with leat.Loader(leat.from_source(Source()), 8, shuffle=True, feedback=leat.TopBatches(0.3)) as loader:
        for _ in range(4):
            before = len(read)
            ids = []
            for batch in loader:
                loader.report(batch.ids, loss=loss_of(batch.ids, batch.epoch))
                ids += batch.ids.tolist()
            assert sorted(read[before:]) == sorted(ids)
    assert len(ids) in (3 * 8, 2 * 8 + 7)


def test_hard_samples_need_losses_and_batches_of_one_size(path: str) -> None:
    with opened(path, feedback=leat.TopBatches(0.5)) as loader:
        assert len(list(loader)) == 13
        with pytest.raises(ValueError, match=r"no loss was reported before epoch 1: call loader.report\(batch"):
            iter(loader)
    with opened(path, feedback=leat.TopBatches(0.5)) as loader:
        batches = iter(loader)
        batch = next(batches)
        loader.report(batch, loss=loss_of(batch.ids, 0))
        loader.set_batch_size(3)
        with pytest.raises(ValueError, match="keeps the mini-batches of epoch 0"):
            iter(loader)


def test_a_resumed_run_keeps_the_batches_of_hard_samples_or_is_refused(path: str) -> None:
    with opened(path, 10, feedback=leat.TopBatches(0.3)) as loader:
        got = train(loader, 1)
        state = json.dumps(loader.state_dict())
        got += train(loader, 2)
        loader.set_batch_size(20)
        resized = json.dumps(loader.state_dict())
        with pytest.raises(ValueError, match="of 10 rows: their size cannot be changed"):
            iter(loader)
    for size, saved in ((20, state), (20, resized), (10, resized)):
        with opened(path, size, feedback=leat.TopBatches(0.3)) as again:
            again.load_state_dict(json.loads(saved))
            with pytest.raises(ValueError, match="of 10 rows: their size cannot be changed"):
                iter(again)
    with opened(path, 20, feedback=leat.TopBatches(0.3)) as again:
        again.load_state_dict(json.loads(state))
        again.set_batch_size(10)
        assert train(again, 2) == got[1:]


def test_a_loader_says_the_size_that_a_loaded_state_decided(path: str) -> None:
    with opened(path, 10) as loader:
        next(iter(loader))
        loader.set_batch_size(20)
        state = loader.state_dict()
    with opened(path, 10) as again:
        again.load_state_dict(state)
        assert "global batch 20," in repr(again)
        assert len(next(iter(again)).ids) == 20


def test_a_batch_that_was_never_trained_comes_before_all_others(path: str) -> None:
    with opened(path, 10, shuffle=False, feedback=leat.TopBatches(0.2)) as loader:
        for batch in loader:
            if batch.step != 4:
                loader.report(batch, loss=np.full(len(batch.ids), 100 - batch.step))
        assert [batch.ids[0] for batch in loader] == [0, 40]


# ---- other policies --------------------------------------------------------------------------------------------------


def test_the_hardest_samples_are_shuffled_each_epoch_anew(path: str) -> None:
    with opened(path, feedback=leat.TopFraction(0.25)) as loader:
        assert sorted(train(loader, 1)[0]) == list(range(N))
        hardest = sorted(sorted(range(N), key=lambda i: (-loss_of(i, 0), i))[:25])
        first = [int(i) for batch in loader for i in batch.ids]
        second = [int(i) for batch in loader for i in batch.ids]
    assert sorted(first) == sorted(second) == hardest
    assert first != second != hardest


def test_samples_without_a_loss_count_as_the_hardest(path: str) -> None:
    with opened(path, shuffle=False, feedback=leat.TopFraction(0.1)) as loader:
        for batch in loader:
            keep = batch.ids % 20 != 3
            loader.report(batch.ids[keep], loss=loss_of(batch.ids, 0)[keep])
        assert {3, 23, 43, 63, 83} <= {int(i) for batch in loader for i in batch.ids}


def test_samples_are_drawn_in_proportion_to_a_power_of_their_loss(path: str) -> None:
    with opened(path, shuffle=False, feedback=leat.LossWeighted(2.0, num_samples=20_000)) as loader:
        for batch in loader:
            loader.report(batch, loss=(batch.ids < 3) * (1.0 + batch.ids))
        ids = np.concatenate([batch.ids for batch in loader])
        again = np.concatenate([batch.ids for batch in loader])
    assert len(ids) == 20_000
    counts = np.bincount(ids, minlength=4)
    assert counts[3:].sum() == 0
    assert np.abs(counts[:3] / 20_000 - np.array([1, 4, 9]) / 14).max() < 0.02
    assert ids.tolist() != again.tolist()


def test_a_curriculum_begins_with_the_easiest_samples(path: str) -> None:
    hard = np.random.default_rng(0).permutation(N)
    shares = [0.1, 0.5, 1.0]
    with opened(path, feedback=leat.Curriculum(hard, lambda epoch: shares[min(epoch, 2)])) as loader:
        got = [sorted(int(i) for batch in loader for i in batch.ids) for _ in range(4)]
    assert got[0] == sorted(np.argsort(hard)[:10].tolist())
    assert got[1] == sorted(np.argsort(hard)[:51].tolist())
    assert got[2] == got[3] == list(range(N))
    with opened(path, feedback=leat.Curriculum("y", lambda epoch: 0.05)) as loader:
        assert sorted(next(iter(loader)).ids.tolist()) == [0, 1, 2, 3, 4]


FALLING = np.arange(N)[::-1]


@pytest.mark.parametrize("steps", [FALLING + (1 << 60), FALLING * 1e-9 + 1, FALLING * 1e300])
def test_a_curriculum_tells_numbers_apart_that_float32_does_not(steps: Any) -> None:
    steps = steps.copy()
    loader = leat.Loader(
        leat.from_arrays(x=steps), 10, framework="numpy", feedback=leat.Curriculum(steps, lambda epoch: 0.1)
    )
    steps[:] = 0  # the array is the caller's
    assert sorted(next(iter(loader)).ids.tolist()) == list(range(N - 10, N))


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_weights_of_a_function_may_have_any_scale(path: str, scale: float) -> None:
    weights = np.where(np.arange(N) < 3, scale, 0.0)
    with (
        opened(path, feedback=lambda table, epoch: weights) as loader,
        opened(path, feedback=lambda table, epoch: np.sign(weights)) as plain,
    ):
        got, ids = ([int(i) for batch in each for i in batch.ids] for each in (loader, plain))
    assert got == ids and set(got) == {0, 1, 2}


def test_a_weight_that_is_refused_is_named_as_it_was_given(path: str) -> None:
    weights = np.where(np.arange(N) < 3, -100.0, 5.0)
    with (
        opened(path, feedback=lambda table, epoch: weights) as loader,
        pytest.raises(ValueError, match="the value of sample 0 is -100: weights"),
    ):
        iter(loader)


def test_a_function_gives_rows_a_mask_weights_or_nothing(path: str) -> None:
    mask = np.arange(N) % 10 == 1
    given: list[Any] = [[5, 4, 4], mask, np.where(mask, 0.5, 0.0), None]
    seen = []

    def choose(table: Any, epoch: int) -> Any:
        seen.append((epoch, int(table.known.sum()), table["margin"].count.max()))
        return given[epoch]

    with opened(path, feedback=choose) as loader:
        got = []
        for _ in range(4):
            got.append([int(i) for batch in loader for i in batch.ids])
            loader.report([1, 2], loss=[0.5, 1.5], margin=[1, 2])
    assert got[0] == [5, 4, 4]
    assert sorted(got[1]) == list(range(1, N, 10)) != got[1]
    assert len(got[2]) == N and {i % 10 for i in got[2]} == {1}
    assert sorted(got[3]) == list(range(N))
    assert seen == [(0, 0, 0), (1, 2, 1), (2, 2, 2), (3, 2, 3)]


def test_an_empty_selection_is_an_error_that_names_the_policy_and_the_epoch(path: str) -> None:
    def nothing(table: Any, epoch: int) -> Any:
        return np.zeros(N, bool)

    with (
        opened(path, feedback=nothing) as loader,
        pytest.raises(ValueError, match="nothing has selected no sample for epoch 0"),
    ):
        iter(loader)


def test_a_selection_without_a_batch_is_an_error_as_the_epoch_begins(path: str) -> None:
    size = {"drop_last": True, "batch_size": 10}
    with opened(path, **size, feedback=leat.TopFraction(0.05)) as loader:
        train(loader, 1)
        with pytest.raises(ValueError, match="TopFraction has selected 5 rows for epoch 1, and a global batch has 10"):
            iter(loader)
        assert [entry["kind"] for entry in loader.log] == ["open"]
        loader.set_batch_size(5, at=(1, 0))
        assert [len(batch.ids) for batch in loader] == [5]
        loader.set_batch_size(50)
        with pytest.raises(ValueError, match="5 rows for epoch 2, and a global batch has 50"):
            iter(loader)
    with opened(path, **size) as loader:
        for decide in (loader.select, loader.set_order):
            for at in (None, (3, 0)):
                with pytest.raises(ValueError, match=f"{decide.__name__}: 9 rows for epoch {at[0] if at else 0}, and"):
                    decide(range(9), at)
        loader.select(range(10))
        assert [len(batch.ids) for batch in loader] == [10]
    for tail in ("uneven", "pad"):
        with opened(path, 10, tail=tail) as loader:
            loader.select([1, 2])
            assert [batch.ids.tolist() for batch in loader] == [[1, 2]] or tail == "pad"
            assert len(loader) == 1


@pytest.mark.parametrize("nothing", [[], (), np.empty(0), np.empty(0, np.float32), np.empty(0, bool)])
def test_a_function_that_returns_nothing_at_all_has_selected_no_sample(path: str, nothing: Any) -> None:
    with (
        opened(path, feedback=lambda table, epoch: nothing) as loader,
        pytest.raises(ValueError, match="<lambda> has selected no sample for epoch 0"),
    ):
        iter(loader)


def test_after_a_policy_that_raised_the_loader_goes_on_where_it_was(path: str) -> None:
    fail = [False]

    def sometimes(table: Any, epoch: int) -> Any:
        if fail[0]:
            raise KeyError("not ready")
        return [epoch, epoch + 1]

    with opened(path, feedback=sometimes) as loader:
        assert [b.ids.tolist() for b in loader] == [[0, 1]]
        fail[0] = True
        before = loader.state_dict()["at"]
        with pytest.raises(KeyError) as raised:
            iter(loader)
        assert raised.value.__notes__ == ["leat: sometimes was deciding the rows of epoch 1"]
        assert loader.state_dict()["at"] == before == {"epoch": 1, "row": 0}
        fail[0] = False
        assert [b.ids.tolist() for b in loader] == [[1, 2]]


@pytest.mark.parametrize(
    ("feedback", "error", "text"),
    [
        (3, TypeError, "feedback is a policy such as"),
        (leat.TopBatches, TypeError, "feedback is a policy such as"),
        (leat.Curriculum([1.0, 2.0], lambda epoch: 1), ValueError, r"shape \(2,\), and there are 103"),
        (leat.Curriculum(np.full(N, np.nan), lambda epoch: 1), ValueError, "the metric of sample 0 is NaN"),
        (leat.Curriculum(["1"] * N, lambda epoch: 1), ValueError, "the metric is <U1 of shape"),
    ],
)
def test_what_is_no_policy_is_refused(path: str, feedback: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        opened(path, feedback=feedback)


def test_shares_are_above_0_and_at_most_1() -> None:
    for wrong in (0, -0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="share above 0"):
            leat.TopBatches(wrong)
        with pytest.raises(ValueError, match="share above 0"):
            leat.TopFraction(wrong)
    with pytest.raises(ValueError, match="alpha is a finite number"):
        leat.LossWeighted(-1)


def test_what_feedback_does_not_go_with_is_refused(path: str) -> None:
    ds = leat.open(path)
    with pytest.raises(ValueError, match="not of a mixture"):
        leat.Loader(leat.Mix({"a": (ds, 0.5), "b": (ds, 0.5)}), 8, feedback=leat.TopFraction(0.5))
    with pytest.raises(ValueError, match="leave the sampler out"):
        leat.Loader(ds, 8, sampler=[1, 2], feedback=leat.TopFraction(0.5))
    with pytest.raises(ValueError, match="does not go with share="):
        leat.Loader(ds, 8, share="job", feedback=leat.TopFraction(0.5))
    with pytest.raises(ValueError, match='does not go with tp_read="first"'):
        leat.Loader(ds, 8, mesh={"tp": (0, 2)}, tp_read="first", feedback=leat.TopFraction(0.5))
    with opened(path, feedback=leat.TopFraction(0.5)) as loader:
        with pytest.raises(ValueError, match="no further consumers"):
            loader.consumer(4)
        with pytest.raises(ValueError, match="select: TopFraction decides"):
            loader.select([1])


def test_out_of_order_every_selected_row_comes_once(path: str) -> None:
    with opened(path, in_order=False, feedback=leat.TopFraction(0.3)) as loader:
        assert sorted(train(loader, 1)[0]) == list(range(N))
        assert sorted(train(loader, 2)[0]) == sorted(sorted(range(N), key=lambda i: (-loss_of(i, 0), i))[:30])


# ---- reports ---------------------------------------------------------------------------------------------------------


def reporting(path: str, **options: Any) -> leat.Loader:
    return opened(path, shuffle=False, feedback=lambda table, epoch: None, **options)


def test_reports_fill_a_table_of_value_count_and_step(path: str) -> None:
    with reporting(path) as loader:
        for _ in range(2):
            for batch in loader:
                loader.report(batch, loss=loss_of(batch.ids, batch.epoch))
        table = loader.feedback["loss"]
    assert (table.value == loss_of(np.arange(N), 1)).all()
    assert (table.count == 2).all() and (table.epoch == 1).all()
    assert (table.step == np.arange(N) // 8).all()
    assert (table.age(4) == 3).all()
    with pytest.raises(ValueError, match="read-only"):
        table.value[0] = 1


def test_an_older_report_never_replaces_a_newer_one_and_a_repeated_one_changes_nothing(path: str) -> None:
    with reporting(path) as loader:
        list(loader)
        batch = next(iter(loader))
        loader.report([1, 2], loss=[5.0, 6.0])
        loader.report([1, 2], loss=[5.0, 6.0])
        loader.report([1, 3], loss=[7.0, 8.0], at=(0, 5))
        loader.report([2], loss=[5.5], at=(batch.epoch, batch.step))
        table = loader.feedback["loss"]
        assert table.value[:4].tolist() == [0, 5, 6, 8]
        assert table.count[:4].tolist() == [0, 1, 1, 1]
        assert (table.epoch[3], table.step[3]) == (0, 5)
        with pytest.raises(ValueError, match="step 3 of epoch 1 was not handed out yet"):
            loader.report([1], loss=[1.0], at=(1, 3))


def test_a_report_that_is_wrong_is_refused_whole(path: str) -> None:
    with reporting(path) as loader:
        ids = next(iter(loader)).ids
        for wrong, error, text in [
            ({"loss": np.full(8, np.nan)}, ValueError, "sample id 0 is nan"),
            ({"loss": np.r_[np.ones(7), np.inf]}, ValueError, "sample id 7 is inf"),
            ({"loss": np.ones(7)}, ValueError, r"loss= has shape \(7,\) and the ids \(8,\)"),
            ({"loss": np.ones((8, 1))}, ValueError, "one value for each id"),
            ({"loss": ["a"] * 8}, TypeError, "loss= are numbers"),
            ({"loss": 0.5}, ValueError, "reduction='none'"),
        ]:
            with pytest.raises(error, match=text):
                loader.report(ids, **wrong)
        for unknown in (N, -1, 2**62):
            with pytest.raises(IndexError, match=f"sample id {unknown}, which is none of the {N}"):
                loader.report([0, unknown], loss=[1.0, 2.0])
        with pytest.raises(TypeError, match="ids are integers"):
            loader.report([0.5], loss=[1.0])
        with pytest.raises(TypeError, match="by the metric's name"):
            loader.report(ids)
        with pytest.raises(TypeError, match="and not both"):
            loader.report(ids, {"a": 1.0}, {"a": 1}, loss=[1.0])
        for metrics in ({"loss": 1.0, "margin": np.nan}, {"margin": np.nan, "loss": 1.0}):
            with pytest.raises(ValueError, match="sample id 3 is nan"):
                loader.report([3], **{name: [value] for name, value in metrics.items()})
        assert not loader.feedback["loss"].count.any() and not loader.feedback["margin"].count.any()
    with opened(path) as loader, pytest.raises(ValueError, match="keeps no reports: open it with feedback="):
        loader.report([1], loss=[1.0])


def test_tensors_are_copied_as_they_are_reported(path: str) -> None:
    torch = pytest.importorskip("torch")
    with reporting(path, framework="torch") as loader:
        batch = next(iter(loader))
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            losses = torch.arange(8, dtype=dtype).requires_grad_()
            loader.report(batch.ids.to(torch.int32), **{f"m{losses.element_size()}": losses})
            with torch.no_grad():
                losses.fill_(100)
        for size in (2, 4, 8):
            assert loader.feedback[f"m{size}"].value[:9].tolist() == [*range(8), 0]


class Event:
    """Stands in for an event of a GPU: done when somebody waits for it."""

    def __init__(self) -> None:
        self.waited = False

    def record(self) -> None:
        pass

    def query(self) -> bool:
        return self.waited

    def synchronize(self) -> None:
        self.waited = True


def test_values_that_are_on_their_way_are_entered_once_they_are_there_and_checked_then(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Event] = []

    def recorded(*given: Any) -> Event:
        events.append(Event())
        return events[-1]

    monkeypatch.setattr("leat.feedback.reports._recorded", recorded)
    with reporting(path) as loader:
        losses = np.arange(8.0)
        batch = next(iter(loader))
        loader.report(batch, loss=losses)
        loader.report(batch, loss=losses + 1)
        losses[:] = 100
        table = loader.feedback.table("loss")
        assert not table.count.any() and not any(event.waited for event in events)
        assert loader.feedback["loss"].value[:8].tolist() == list(range(1, 9))
        loader.report(batch.ids, loss=np.full(8, np.nan))
        loader.report([50], loss=[3.0])
        with pytest.raises(ValueError, match="sample id 0 is nan"):
            iter(loader)
        assert loader.feedback["loss"].value[[0, 50]].tolist() == [1, 3]
        assert next(iter(loader)).epoch == 1


def test_an_error_of_values_that_were_on_their_way_leaves_no_other_report_out(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = Event()
    monkeypatch.setattr("leat.feedback.reports._recorded", lambda *given: event)
    with reporting(path) as loader:
        next(iter(loader))
        loader.report([1], loss=[1.0])
        event.waited = False
        loader.report([2], loss=[2.0])
        loader.report([3, 4], loss=[3.0, 4.0], margin=[0.0, np.nan])
        event.waited = True
        with pytest.raises(ValueError, match="sample id 4 is nan") as raised:
            loader.report([5], loss=[5.0])
        assert raised.value.__notes__ == ["leat: this is about the report of step 0 of epoch 0"]
        with reporting(path) as again:
            again.load_state_dict(loader.state_dict())
            for one in (loader, again):
                assert np.flatnonzero(one.feedback["loss"].known).tolist() == [1, 2, 5]
                assert not one.feedback["margin"].known.any()


def test_a_report_of_several_gpus_is_there_when_the_values_of_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from leat.feedback import reports

    made: dict[str, Event] = {}
    now: list[str] = []

    class Made(Event):
        def __init__(self) -> None:
            super().__init__()
            made[now[-1]] = self

        def record(self, stream: Any = None) -> None:
            assert made[stream] is self

    @contextlib.contextmanager
    def current(device: Any) -> Any:
        now.append(str(device))
        yield
        now.pop()

    class Values:
        detach = is_floating_point = None

        def __init__(self, device: str) -> None:
            self.device = torch.device(device)

    monkeypatch.setattr(torch.cuda, "Event", Made)
    monkeypatch.setattr(torch.cuda, "device", current)
    monkeypatch.setattr(torch.cuda, "current_stream", str)
    assert reports._recorded(Values("cpu"), [1.0]) is None
    event = reports._recorded(Values("cuda:0"), Values("cuda:1"), Values("cuda:1"))
    event.record()
    made["cuda:0"].waited = True
    assert set(made) == {"cuda:0", "cuda:1"} and not event.query()
    event.synchronize()
    assert made["cuda:1"].waited and event.query()


def test_rows_that_only_pad_a_batch_are_left_out_of_a_report(path: str) -> None:
    loaders = [opened(path, 4, rank=r, world_size=2, feedback=lambda t, e: None) for r in range(2)]
    for loader in loaders:
        for batch in loader:
            loader.report(batch, loss=np.where(batch.valid, 1.0, np.nan))
    assert sum(int(loader.feedback["loss"].count.sum()) for loader in loaders) == N
    for loader in loaders:
        loader.close()


def test_ids_are_those_of_the_opened_data_set_in_views_too(path: str) -> None:
    ds = leat.open(path)
    view = leat.concat(ds, ds)[50:160].select([3, 100, 7, 60, 9])
    with leat.Loader(view, 2, framework="numpy", feedback=leat.TopBatches(0.4)) as loader:
        for batch in loader:
            loader.report(batch, loss=(batch.ids - 50.0) * (batch.ids < 140))
        assert [batch.ids.tolist() for batch in loader] == [[57, 110]]
        with pytest.raises(IndexError, match="sample id 58, which is none of the 5"):
            loader.report([58], loss=[1.0])
    with pytest.raises(ValueError, match="each sample stands once"):
        leat.Loader(ds.select([1, 2, 1]), 2, feedback=leat.TopBatches(0.4))


# ---- selections by hand ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [True, False, leat.Blocks(4)])
def test_what_is_selected_holds_in_later_epochs_in_the_order_of_the_loader(path: str, shuffle: Any) -> None:
    some = list(range(2, 60, 3))
    with opened(path, shuffle=shuffle) as loader:
        next(iter(loader))
        loader.select(some)
        epochs = [[int(i) for batch in loader for i in batch.ids] for _ in range(2)]
        state = json.dumps(loader.state_dict())
        loader.select(None)
        assert sorted(int(i) for batch in loader for i in batch.ids) == list(range(N))
        log = loader.log
    assert [sorted(ids) for ids in epochs] == [some, some]
    assert (epochs[0] == epochs[1] == some) == (shuffle is False)
    with opened(path, shuffle=shuffle) as again:
        again.load_state_dict(json.loads(state))
        assert sorted(int(i) for batch in again for i in batch.ids) == some
    with opened(path, shuffle=shuffle, log=log) as repeated:
        list(repeated)
        assert [[int(i) for batch in repeated for i in batch.ids] for _ in range(2)] == epochs
        assert sorted(int(i) for batch in repeated for i in batch.ids) == list(range(N))
    assert [entry.get("list") if entry.get("list") is None else entry["list"]["n"] for entry in log] == [None, 20, None]


def test_a_selection_shuffles_as_a_data_set_of_that_size_does(path: str) -> None:
    some = np.arange(5, 95, 2)
    ds = leat.open(path)
    with opened(path) as loader, leat.Loader(ds.select(some), 8, shuffle=True, seed=5, framework="numpy") as view:
        loader.select(some, at=(0, 0))
        for _ in range(2):
            assert [b.ids.tolist() for b in loader] == [b.ids.tolist() for b in view]


def test_an_order_by_hand_may_repeat_rows_and_enters_the_log(path: str) -> None:
    with opened(path) as loader:
        loader.set_order([9, 7, 7, 1], at=(1, 0))
        assert sorted(int(i) for batch in loader for i in batch.ids) == list(range(N))
        assert [batch.ids.tolist() for batch in loader] == [[9, 7, 7, 1]]
        assert loader.plan(1, 0).tolist() == loader.batch_at(1, 0).ids.tolist() == [9, 7, 7, 1]
        assert [(e["kind"], e["epoch"]) for e in loader.log] == [("open", 0), ("decide", 1)]


def test_what_cannot_be_selected_is_an_error_that_says_why(path: str) -> None:
    with opened(path) as loader:
        for wrong, error, text in [
            ([], ValueError, "at least one row"),
            ([N], IndexError, f"select: position {N} is out of range"),
            ([0.5], TypeError, "select: positions are a list of integers"),
        ]:
            with pytest.raises(error, match=text):
                loader.select(wrong)
        next(iter(loader))
        with pytest.raises(ValueError, match="was handed out"):
            loader.select([1], at=(0, 0))
    with opened(path, rank=0, world_size=2) as loader, pytest.raises(ValueError, match="on several ranks"):
        loader.select([1, 2])
    ds = leat.open(path)
    with leat.Loader(ds, 4, sampler=leat.Weighted(np.ones(N), 10)) as loader:
        with pytest.raises(ValueError, match="a weighted order draws from all samples"):
            loader.select([1, 2])
        loader.set_order([1, 2])
        assert [batch.ids.tolist() for batch in loader] == [[1, 2]]


# ---- log and state ---------------------------------------------------------------------------------------------------


def test_the_log_shows_each_decision_and_repeats_the_run_without_losses(path: str, tmp_path: Path) -> None:
    with opened(path, feedback=leat.TopBatches(0.4)) as loader:
        got = train(loader, 4)
        log = loader.log
    assert [(e["kind"], e["epoch"], e.get("list", {}).get("n")) for e in log[1:]] == [
        ("decide", epoch, len(got[epoch])) for epoch in (1, 2, 3)
    ]
    (tmp_path / "log.json").write_text(json.dumps(log))
    for source in (log, tmp_path / "log.json"):
        with opened(path, log=source) as again:
            first = [[int(i) for batch in again for i in batch.ids] for _ in range(2)]
            state = json.dumps(again.state_dict())
        with opened(path, log=source) as resumed:
            resumed.load_state_dict(json.loads(state))
            assert first + [[int(i) for batch in resumed for i in batch.ids] for _ in range(2)] == got
    with pytest.raises(ValueError, match="leave feedback out"):
        opened(path, log=log, feedback=leat.TopBatches(0.4))


def test_hundreds_of_decisions_are_folded_and_a_resumed_or_repeated_run_is_the_same(path: str) -> None:
    def choose(table: Any, epoch: int) -> Any:
        if epoch % 7 == 3:
            return None
        return np.arange(N) % 5 == epoch % 5 if epoch % 2 else [epoch % N, 1, 2]

    epochs = 270  # the library folds entries beyond 256
    with opened(path, 20, feedback=choose) as loader:
        ids, states = [], {}
        for epoch in range(epochs):
            ids.append([])
            for batch in loader:
                ids[epoch] += batch.ids.tolist()
                if epoch in (5, 265) and batch.step == 0:
                    states[epoch] = json.dumps(loader.state_dict())
        log, plan = loader.log, loader.stats()["plan_hash"]
        assert len(json.loads(loader._core.log(0))) < len(log) == epochs + 1
    for epoch, state in states.items():
        with opened(path, 20, feedback=choose) as again:
            again.load_state_dict(json.loads(state))
            got = [[int(i) for batch in again for i in batch.ids] for _ in range(epoch, epochs)]
            assert [ids[epoch][:20] + got[0], *got[1:]] == ids[epoch:]
            assert again.stats()["plan_hash"] == plan
    with opened(path, 20, log=log) as repeated:
        assert [[int(i) for batch in repeated for i in batch.ids] for _ in range(epochs)] == ids


@pytest.fixture(scope="module")
def many() -> leat.Dataset:
    return leat.from_arrays(x=np.arange(60_000, dtype=np.float32))


def long_run(many: leat.Dataset, **options: Any) -> leat.Loader:
    """Its lists, shuffled, are above what a state of the library's holds."""
    return leat.Loader(many, 1000, shuffle=True, seed=1, framework="numpy", feedback=leat.TopBatches(0.9), **options)


def steps(loader: leat.Loader, n: int) -> list[list[int]]:
    got: list[list[int]] = []
    while len(got) < n:
        for batch in loader:
            loader.report(batch, loss=np.random.default_rng([batch.epoch, batch.step]).random(1000, np.float32))
            got.append(batch.ids.tolist())
            if len(got) == n:
                break
    return got


@pytest.mark.parametrize("folder", [True, False])
def test_a_list_that_is_too_large_for_the_library_resumes_from_the_folder_or_from_the_state(
    many: leat.Dataset, tmp_path: Path, folder: bool
) -> None:
    options: dict[str, Any] = {"log_dir": tmp_path} if folder else {}
    with long_run(many, **options) as loader:
        steps(loader, 75)
        state = json.dumps(loader.state_dict())
        expected = steps_from(loader, state, 80)
    if folder:
        assert len(list(tmp_path.glob("positions-*.npy"))) >= 1 and len(state) < 10_000
    with long_run(many, **options) as again:
        assert steps_from(again, state, 80) == expected
    if folder:
        with (
            long_run(many) as without,
            pytest.warns(UserWarning, match="open the Loader with the log_dir of the run"),
            pytest.raises(leat.StateError, match="only the hash of the 54000 rows"),
        ):
            without.load_state_dict(json.loads(state))
        with leat.Loader(
            many, 1000, shuffle=True, seed=1, log=json.loads(json.dumps(again.log)), log_dir=tmp_path
        ) as r:
            list(r)
            assert len(list(r)) == 54
    else:
        with leat.Loader(many, 1000, shuffle=True, seed=1, log=again.log) as repeated:
            list(repeated)
            with pytest.raises(leat.StateError, match="only the hash of the 54000 rows of epoch 1"):
                iter(repeated)


def steps_from(loader: leat.Loader, state: str, n: int) -> list[list[int]]:
    loader.load_state_dict(json.loads(state))
    return steps(loader, n)


def test_a_table_that_no_state_has_room_for_is_said_when_it_is_saved_and_when_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("leat.feedback.blobs.MOST", 64)
    with opened(path, feedback=leat.TopFraction(0.5)) as loader:
        train(loader, 1)
        with pytest.warns(UserWarning, match="too large for a state.*open the Loader with log_dir=") as saved:
            state = loader.state_dict()
    with opened(path, feedback=leat.TopFraction(0.5)) as again:
        with pytest.warns(UserWarning, match="only the hash of the table of 'loss'") as loaded:
            again.load_state_dict(state)
        assert saved[0].filename == loaded[0].filename == __file__
        assert not again.feedback["loss"].count.any()


def damaged_states(state: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for name, change in {
        "no hash": lambda f: f["tables"].update(loss="../../etc"),
        "another table": lambda f: f["data"].update({next(iter(f["data"])): "AAAA"}),
        "no base64": lambda f: f["data"].update({next(iter(f["data"])): "!!"}),
        "no tables": lambda f: f.pop("tables"),
        "no place": lambda f: f.update(handed=[1]),
        "a negative place": lambda f: f.update(handed=[-1, 0]),
    }.items():
        copy = json.loads(json.dumps(state))
        change(copy["feedback"])
        found.append((name, copy))
    return found


def test_a_damaged_state_is_refused_and_changes_nothing(path: str) -> None:
    with opened(path, feedback=leat.TopFraction(0.5)) as loader:
        train(loader, 2)
        state = json.loads(json.dumps(loader.state_dict()))
        before = loader.feedback["loss"].marks.copy()
        for name, wrong in damaged_states(state):
            with pytest.raises(leat.StateError):
                loader.load_state_dict(wrong)
                pytest.fail(name)
            assert (loader.feedback["loss"].marks == before).all()
        loader.load_state_dict(state)
        assert len(list(loader)) == 7


@examples(25)
@given(data=st.binary(max_size=200), flip=st.integers(0, 10**6))
def test_bytes_that_are_no_table_are_refused(path: str, data: bytes, flip: int) -> None:
    with opened(path, feedback=leat.TopFraction(0.5)) as loader:
        train(loader, 1)
        table = loader.feedback["loss"]
        good = bytearray(table.packed())
        for wrong in (data, table.packed()[:-3]):
            with pytest.raises(leat.StateError):
                unpacked("loss", len(table), wrong)
        # A flipped bit is found by the hash that a state has of these bytes. Without that they may make some table.
        good[flip % len(good)] ^= 1 + flip % 255
        with contextlib.suppress(leat.StateError):
            known, marks = unpacked("loss", len(table), bytes(good))
            assert len(known) == len(table) and known.sum() == len(marks) and np.isfinite(marks["value"]).all()


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_table_with_values_that_nobody_can_report_is_refused(path: str, value: float) -> None:
    with opened(path, feedback=leat.TopFraction(0.5)) as loader:
        train(loader, 1)
        table = loader.feedback["loss"]
        table.marks["value"][3] = value
        with pytest.raises(leat.StateError, match="nobody can report"):
            unpacked("loss", len(table), table.packed())


def test_a_state_forgets_what_was_reported_after_it(path: str) -> None:
    with opened(path, feedback=leat.TopFraction(0.5)) as loader:
        iteration = iter(loader)
        batch = next(iteration)
        loader.report(batch.ids, loss=loss_of(batch.ids, 0))
        state = json.loads(json.dumps(loader.state_dict()))
        known = loader.feedback["loss"].known.copy()
        for batch in iteration:
            loader.report(batch.ids, loss=loss_of(batch.ids, 0))
        assert 0 < known.sum() < loader.feedback["loss"].known.sum()
        loader.load_state_dict(state)
        assert (loader.feedback["loss"].known == known).all()


def test_what_is_right_or_wrong_is_a_value(path: str) -> None:
    with opened(path, feedback=leat.TopFraction(0.1, metric="wrong")) as loader:
        for batch in loader:
            loader.report(batch, wrong=batch.ids % 10 == 3)
        assert sorted(int(i) for batch in loader for i in batch.ids) == list(range(3, N, 10))


def test_ranks_by_arguments_report_the_rows_of_all_where_the_last_step_is_uneven(path: str) -> None:
    def run(world: int) -> list[list[int]]:
        ranks = [
            leat.Loader(leat.open(path), global_batch_size=6, shuffle=True, framework="numpy", tail="uneven",
                        feedback=leat.TopFraction(0.3), rank=rank, world_size=world)
            for rank in range(world)
        ]  # fmt: skip
        rows: list[list[int]] = []
        for epoch in range(3):
            rows.append([])
            epochs = [iter(rank) for rank in ranks]
            while given := [batch for batch in (next(each, None) for each in epochs) if batch is not None]:
                for batch in given:
                    rows[-1] += batch.ids.tolist()
                    for rank in ranks:
                        rank.report(batch, loss=loss_of(batch.ids, epoch))
        return rows

    assert N % 6 == 1  # a row of one rank alone
    assert run(1) == run(2) == run(4)


def test_a_step_that_no_rank_had_is_not_reported(path: str) -> None:
    for world in (1, 2):
        with opened(path, feedback=leat.TopFraction(0.3), rank=0, world_size=world) as loader:
            last = [batch.step for batch in loader][-1]
            for at in ((0, last + world), (0, last + 10**6), (1, 0)):
                with pytest.raises(ValueError, match=f"step {at[1]} of epoch {at[0]} was not handed out yet"):
                    loader.report([1], loss=[1.0], at=at)


def test_an_epoch_that_decisions_gave_up_is_an_error_that_says_so_and_nothing_moves(path: str) -> None:
    with opened(path, feedback=leat.TopFraction(0.5)) as loader:
        for _ in range(3):
            for batch in loader:
                loader.report(batch, loss=loss_of(batch.ids, batch.epoch))
                if batch.step == 1:
                    loader.select(np.arange(80), at=(batch.epoch, 2))
        loader.set_epoch(0)
        for _ in range(2):
            with pytest.raises(leat.RangeError, match="epoch 0 cannot begin: decisions made since gave up"):
                iter(loader)
        loader.set_epoch(3)
        assert next(iter(loader)).epoch == 3

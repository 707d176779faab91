"""Faults of python/leat/workers: the pool of worker processes, their loop, and how many there are."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "intervals in which workers were still missing are judged as if all had worked",
        "python/leat/workers/adapt.py",
        "if x.elapsed_s < SHORT or nobody_asked or x.workers != self.workers:",
        "if x.elapsed_s < SHORT or nobody_asked:",
        ("py:test_adapt.py::test_intervals_of_workers_that_are_not_all_there_are_not_judged",),
    ),
    Mutation(
        "workers take the core of the training",
        "python/leat/workers/cores.py",
        "return max(2.0, cores - 1) if cores > 2 else cores",
        "return cores",
        ("py:test_adapt.py::test_the_training_keeps_a_core_where_there_are_more_than_two",),
    ),
    Mutation(
        "a worker serves loaders in the order in which they came",
        "python/leat/workers/loop.py",
        "sorted(self.clients.values(), key=lambda c: c.board.served_ns())",
        "sorted(self.clients.values(), key=lambda c: 0)",
        (
            "py:test_feed.py::test_a_worker_serves_the_loader_that_has_had_the_least_time",
            "py:test_feed.py::test_the_time_of_a_loader_counts_by_its_weight",
        ),
    ),
    Mutation(
        "a sample is late by time in which the process that looks stood still",
        "python/leat/workers/feed.py",
        "self.watched_s += min(time - self.looked, limit / 2)",
        "self.watched_s += time - self.looked",
        ("py:test_feed.py::test_only_time_in_which_this_process_looks_makes_a_sample_late",),
    ),
    Mutation(
        "a worker that had worked is given up when it was killed three times",
        "python/leat/workers/pool.py",
        "self.idle_deaths[i] = 0 if asked or units != self.units_before[i] else self.idle_deaths[i] + 1",
        "self.idle_deaths[i] = 0 if asked else self.idle_deaths[i] + 1",
        (
            "py:test_feed.py::"
            "test_workers_that_are_killed_while_they_have_nothing_to_do_are_replaced_if_they_had_worked",
        ),
    ),
    Mutation(
        "a loader that asked for nothing for an hour is served before all others",
        "python/leat/workers/feed.py",
        "if others and min(others) > self.board.served_ns():",
        "if others and min(others) < self.board.served_ns():",
        ("py:test_feed.py::test_a_loader_that_asked_for_nothing_has_no_claim_on_the_time_of_those_that_did",),
    ),
    Mutation(
        "each broken row of a batch has the same substitute",
        "python/leat/workers/loop.py",
        "        key = _leat.row_key(unit.seed, unit.epoch, unit.first_row + row)\n",
        "        key = _leat.row_key(unit.seed, unit.epoch, unit.first_row)\n",
        ("py:test_dataloader_own.py::test_each_broken_row_of_a_batch_has_a_substitute_of_its_own",),
    ),
    Mutation(
        "a message that a dead worker had announced is waited for",
        "python/leat/workers/pool.py",
        "self._count(i, announced - self.received[i])",
        "self._count(i, 0 * announced)",
        ("py:test_feed.py::test_a_message_that_a_worker_announced_and_could_not_send_is_not_waited_for",),
    ),
    Mutation(
        "a substitute is drawn as if nothing were known of the broken sample",
        "python/leat/workers/loop.py",
        "return position if 0 <= position < n else n",
        "return n",
        ("py:test_dataloader_own.py::test_a_substitute_is_the_one_that_a_loader_takes",),
    ),
    Mutation(
        "workers need pidfds",
        "python/leat/workers/loop.py",
        "if e.errno not in (errno.ENOSYS, errno.EPERM):",
        "if e.errno != errno.ENOSYS:",
        ("py:test_refused_calls.py::test_workers_run_and_are_replaced_where_there_are_no_pidfds[container-fork]",),
    ),
    Mutation(
        "workers read ahead though loaders use what the process may",
        "python/leat/workers/feed.py",
        " and size <= _leat.memory_left()",
        "",
        ("py:test_feed.py::test_workers_ask_for_memory_where_loaders_do",),
    ),
]

"""Faults of python/leat/loading: states, meshes, batches and what a loader tells."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "a counter of energy that wraps counts nothing of the round before",
        "python/leat/loading/energy.py",
        "(most if now < before else 0)",
        "(before if now < before else 0)",
        ("py:test_energy.py::test_a_counter_that_wraps_goes_on",),
    ),
    Mutation(
        "energy of the memory of a package is not counted",
        "python/leat/loading/energy.py",
        "            for one in [zone, *memory]:\n",
        "            for one in [zone, *memory[1:]]:\n",
        ("py:test_energy.py::test_packages_and_their_memory_are_counted_in_joules_and_nothing_twice",),
    ),
    Mutation(
        "of hybrid sharding two ranks have the same rows",
        "python/leat/loading/mesh.py",
        "Place(before.rank * size + rank, before.size * size)",
        "Place(before.rank + rank, before.size * size)",
        ("py:test_mesh.py::test_dimensions_of_hybrid_sharding_count_as_one",),
    ),
    Mutation(
        "the last stage of a pipeline gets no data",
        "python/leat/loading/mesh.py",
        "return self.pp.rank in (0, self.pp.size - 1)",
        "return self.pp.rank in (0, self.pp.size)",
        ("py:test_mesh.py::test_tensor_and_pipeline_parallel_peers_see_identical_batches",),
    ),
    Mutation(
        "a stage that reads takes the state of one that has read nothing",
        "python/leat/loading/states.py",
        "            if self.mesh is None or self.mesh.reads:\n",
        "            if self.mesh is None:\n",
        ("py:test_mesh.py::test_a_stage_that_has_read_nothing_has_a_state_for_others_like_it_only",),
    ),
    Mutation(
        "the padding of an image is marked by its width and height exchanged",
        "python/leat/loading/batch.py",
        "        made[i, :height, :width] = False\n",
        "        made[i, :width, :height] = False\n",
        ("py:test_stack.py",),
    ),
    Mutation(
        "a row that was left out has the substitute -1",
        "python/leat/loading/batch.py",
        "RowError(row, planned, None if delivered < 0 else delivered, reason)",
        "RowError(row, planned, delivered, reason)",
        ("py:test_loader.py::test_skip_leaves_the_row_out_and_moves_nothing_else",),
    ),
    Mutation(
        "a state of a run that decided otherwise names a batch of this one",
        "python/leat/mixtures/logs.py",
        "    return mine[0] == other[0] and left[: len(right)] == right\n",
        "    return mine[0] == other[0] and len(left) >= len(right)\n",
        ("py:test_loader.py::test_batch_at_refuses_a_state_of_a_run_that_decided_otherwise",),
    ),
    Mutation(
        "of several fields that vary in length the first counts",
        "python/leat/loading/buckets.py",
        "    if len(arrays) != 1:\n",
        "    if not arrays:\n",
        ("py:test_buckets.py::test_of_several_fields_that_vary_in_length_one_has_to_be_named",),
    ),
    Mutation(
        "steps are counted behind folded decisions as if sizes had never changed",
        "python/leat/mixtures/logs.py",
        'self.step = entry["steps"] if entry["kind"] == "folded" else self.at(entry["epoch"], entry["row"])',
        'self.step = self.at(entry["epoch"], entry["row"])',
        ("py:test_mixture_logs.py::test_steps_of_a_state_are_right_where_the_size_of_batches_was_folded",),
    ),
    Mutation(
        "rows of a plan are made by the decisions of an earlier plan",
        "python/leat/loading/making.py",
        "            if self._decisions != decisions:\n",
        "            if self._decisions is None:\n",
        ("py:test_lineage.py::test_decisions_go_with_the_plan",),
    ),
    Mutation(
        "plans of two steps have other decisions though none was made between them",
        "python/leat/loading/lineage.py",
        '        left["at"] = {"epoch": folded[0]["epoch"], "row": folded[0]["row"]} '
        'if folded else {"epoch": 0, "row": 0}\n',
        "",
        ("py:test_lineage.py::test_plans_of_all_steps_between_two_decisions_have_the_same_ones",),
    ),
    Mutation(
        "weights that were changed after the loader was opened stand in its plans",
        "python/leat/loading/lineage.py",
        "            if digest(self._arrays) != self._hash:\n",
        "            if len(digest(self._arrays)) != len(self._hash):\n",
        ("py:test_lineage.py::test_a_plan_is_of_the_loader_as_it_was_opened",),
    ),
    Mutation(
        "ranks that decide the same at different steps before it holds differ",
        "python/leat/mixtures/decisions.py",
        "len(self._told) if place is None else",
        "len(self._told) if True else",
        (
            "py:test_differences.py::test_decisions_are_told_up_to_a_step_whatever_was_decided_beyond",
            "py:test_agreement_ranks.py::test_a_decision_counts_from_the_step_on_from_which_it_holds",
        ),
    ),
    Mutation(
        "a count of loaders that differs once is a difference",
        "python/leat/loading/exchange.py",
        "if LOADERS in what and what[LOADERS] != before:",
        "if LOADERS in what and before == [0]:",
        ("py:test_agreement_ranks.py::test_a_loader_that_ranks_open_at_different_steps_is_no_difference",),
    ),
    Mutation(
        "ranks that start again take the token of those before them",
        "python/leat/loading/meeting.py",
        'elif self._store.add(f"answered/{token}", 0) >= self._asked[1]:',
        'elif self._store.add(f"answered/{token}", 0) > 0:',
        ("py:test_meeting.py::test_ranks_that_start_again_wait_for_the_rank_that_has_led_and_have_another_start",),
    ),
    Mutation(
        "a rank that has ended is named however near the others are",
        "python/leat/loading/silence.py",
        "if waits or is_far(mine, place):",
        "if waits or ended or is_far(mine, place):",
        ("py:test_silence.py::test_a_rank_that_has_ended_is_named_only_if_the_other_goes_on_far_beyond",),
    ),
]

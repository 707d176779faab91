"""Faults of the Python package, python/leat, but for the DataLoader (torch.py)."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "the first samples of a data set are made in the process that forks workers",
        "python/leat/packs/pack.py",
        "        if not workers or not self.count:\n            return super().look(workers)\n",
        "        if workers or not workers:\n            return super().look(workers)\n",
        ("py:test_pack.py::test_a_file_that_a_data_set_opens_when_it_is_read_is_opened_by_each_worker",),
    ),
    # --- loading ----------------------------------------------------------------------------------------------------
    Mutation(
        "a row of a ragged batch ends one value early",
        "python/leat/data/ragged.py",
        "return self.values[int(self.offsets[i]) : int(self.offsets[i + 1])]",
        "return self.values[int(self.offsets[i]) : int(self.offsets[i + 1]) - 1]",
        ("py:test_ragged.py",),
    ),
    Mutation(
        "an error at the border of two parts of a batch is in both",
        "python/leat/loading/parts.py",
        "return [e for e, at in _places(whole) if self._begin <= at and (last or at < self._end)]",
        "return [e for e, at in _places(whole) if self._begin <= at and (last or at <= self._end)]",
        ("py:test_split.py::test_an_error_is_told_by_the_part_that_has_its_row",),
    ),
    Mutation(
        "rows that were left out before an error do not move its place",
        "python/leat/loading/parts.py",
        "        out += error.delivered is None\n",
        "        out += 0\n",
        ("py:test_split.py::test_an_error_is_told_by_the_part_that_has_its_row",),
    ),
    Mutation(
        "sequences that are padded to a multiple end where their tokens end",
        "python/leat/loading/thd.py",
        "end = starts[-1] + -(-int(counts[-1]) // multiple) * multiple if len(starts) else 0",
        "end = starts[-1] + int(counts[-1]) if len(starts) else 0",
        ("py:test_thd.py",),
    ),
    Mutation(
        "a list of positions that was changed on disk is believed",
        "python/leat/feedback/lists.py",
        "whole = found.dtype == np.int64 and found.ndim == 1 and _leat.positions_hash(found) == name",
        "whole = found.dtype == np.int64 and found.ndim == 1",
        ("py:test_feedback_lists.py",),
    ),
    Mutation(
        "weights may be negative",
        "python/leat/loading/samplers.py",
        "            or (self.weights < 0).any()\n",
        "",
        ("py:test_loader.py::test_weights_that_no_draw_can_follow_are_refused",),
    ),
    # --- batch sizes ------------------------------------------------------------------------------------------------
    Mutation(
        "the mean of gradients counts every part alike",
        "python/leat/batch_size.py",
        "self._mean = self._mean + off * (rows / self._rows)",
        "self._mean = self._mean + off / self._parts",
        ("py:test_batch_size.py",),
    ),
    Mutation(
        "the variance of gradients is divided by the parts, not by one less",
        "python/leat/batch_size.py",
        "return Observed(spread / (parts - 1), _sum_of_squares(mean, mean), rows, parts, now)",
        "return Observed(spread / parts, _sum_of_squares(mean, mean), rows, parts, now)",
        ("py:test_batch_size.py",),
    ),
    # --- feedback ---------------------------------------------------------------------------------------------------
    Mutation(
        "values in a state may be infinite",
        "python/leat/feedback/table.py",
        'if not np.isfinite(marks["value"]).all() or not marks["count"].all():',
        'if not marks["count"].all():',
        ("py:test_feedback.py::test_a_table_with_values_that_nobody_can_report_is_refused",),
    ),
    Mutation(
        "a table that a state brings keeps what was reported before",
        "python/leat/feedback/table.py",
        "        self.marks[:] = np.zeros(1, MARK)\n        self.marks[known] = marks\n",
        "        self.marks[known] = marks\n",
        ("py:test_feedback.py::test_a_state_forgets_what_was_reported_after_it",),
    ),
    # --- stores -----------------------------------------------------------------------------------------------------
    Mutation(
        "the first offset of a ragged value that is a slice is not taken off",
        "python/leat/stores/values.py",
        "offsets = offsets.astype(np.int64) - first",
        "offsets = offsets.astype(np.int64)",
        ("py:test_store.py::test_a_part_of_a_ragged_batch_is_written_as_its_own_rows",),
    ),
    Mutation(
        "float64 is rounded twice on its way to float16",
        "python/leat/stores/values.py",
        "    bits |= inexact\n",
        "",
        ("py:test_store_failures.py::test_float64_is_rounded_once",),
    ),
    Mutation(
        "negative keys are refused or wrong: their bits are not taken",
        "python/leat/stores/values.py",
        'made.astype(np.int64, copy=False).view(np.uint64) if made.dtype.kind == "i" else made',
        'abs(made) if made.dtype.kind == "i" else made',
        ("py:test_store.py",),
    ),
    # --- privacy ----------------------------------------------------------------------------------------------------
    Mutation(
        "one answer more than the budget pays for is given",
        "python/leat/privacy/ranking.py",
        "        self.left -= 1\n",
        "        self.left -= self.left > 1 or self.last is not None\n",
        ("py:test_privacy.py::test_a_single_answer_is_had_once",),
    ),
    Mutation(
        "a value above the sensitivity is counted",
        "python/leat/privacy/counter.py",
        "if norm > self.sensitivity * (1 + 1e-12):",
        "if norm > 2 * self.sensitivity:",
        ("py:test_privacy.py::test_what_cannot_be_added_or_loaded_is_refused_and_changes_nothing",),
    ),
    # --- mixtures ---------------------------------------------------------------------------------------------------
    Mutation(
        "the mean of what ADO preferred forgets too fast",
        "python/leat/mixtures/ado.py",
        "self.mean = [r / (t + 1) + (1 - 1 / (t + 1)) * m for r, m in zip(rho, self.mean)]",
        "self.mean = [r / t + (1 - 1 / t) * m for r, m in zip(rho, self.mean)]",
        ("py:test_mixture_algorithms.py",),
    ),
    Mutation(
        "ADO's state does not have the laws",
        "python/leat/mixtures/ado.py",
        '            "laws": [None if law is None else list(law) for law in self.laws],\n',
        '            "laws": [None for law in self.laws],\n',
        ("py:test_mixture_algorithms.py", "py:test_mixture_reports.py"),
    ),
    # --- text and data ----------------------------------------------------------------------------------------------
    Mutation(
        "two documents with one id are shown as one",
        "python/leat/text/rows.py",
        "        border[1:] |= (np.asarray(positions)[1:] == 0) & (documents[1:] >= 0)\n",
        "        pass\n",
        ("py:test_token_rows.py", "py:test_chat_parts.py", "py:test_html.py"),
    ),
    Mutation(
        "a position that is NULL in Arrow is taken",
        "python/leat/data/positions.py",
        "    if valid is not None and not valid.all():\n",
        "    if valid is not None and not valid.any():\n",
        ("py:test_query.py",),
    ),
    Mutation(
        "what an Arrow table is offset by is lost",
        "python/leat/data/positions.py",
        "return _column(schema.children[0].contents, child, begin + array.offset, n)",
        "return _column(schema.children[0].contents, child, begin, n)",
        ("py:test_query.py",),
    ),
    Mutation(
        "the eos of a document has no loss",
        "python/leat/data/packing.py",
        "mask, [True] * ends[1]])",
        "mask, [False] * ends[1]])",
        ("py:test_pack_masks.py",),
    ),
    Mutation(
        "packings that differ in their multiple have one fingerprint",
        "python/leat/data/packing.py",
        "        more = (*more, self.multiple) if self.multiple > 1 else more\n",
        "",
        ("py:test_pack_rows.py", "py:test_thd.py", "py:test_pack_whole.py"),
    ),
    Mutation(
        "samples of workers are seeded by their batch",
        "python/leat/packs/pack.py",
        "i // _BATCH, i)",
        "i // _BATCH, i // _BATCH)",
        ("py:test_pack.py",),
    ),
    Mutation(
        "a photo that was changed is stored as its file",
        "python/leat/packs/kinds.py",
        "own.size == photo.size and own.tobytes() == photo.tobytes()",
        "own.size == photo.size",
        ("py:test_pack.py",),
    ),
    Mutation(
        "a conversion of other files goes on with what is there",
        "python/leat/commands/packing.py",
        '"source_id": dataset.fingerprint}',
        '"source_id": "a source"}',
        ("py:test_convert.py",),
    ),
    Mutation(
        "a fork waits for no import of another thread",
        "python/leat/importing.py",
        "    while _is_imported_elsewhere() and time.monotonic() < end:\n",
        "    while time.monotonic() > end:\n",
        ("py:test_process.py::test_a_fork_waits_for_a_module_that_another_thread_imports",),
    ),
]

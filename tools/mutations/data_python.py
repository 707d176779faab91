"""Faults of python/leat/data: mixtures, masks, tables and data sets that Python makes."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "every polygon of an instance but the first lies where the one before it ended",
        "python/leat/data/masks.py",
        "            last = c[-2:]\n",
        "",
        ("py:test_masks.py::test_each_polygon_of_an_instance_lies_where_it_was_given",),
    ),
    Mutation(
        "the pixels of a mask are counted row by row",
        "python/leat/data/masks.py",
        'pixels.astype(bool).ravel(order="F")',
        'pixels.astype(bool).ravel(order="C")',
        (
            "py:test_masks.py::test_runs_and_arrays_come_back_as_they_were",
            "py:test_masks.py::test_an_array_of_masks_is_written_as_their_list_is",
        ),
    ),
    Mutation(
        "two points of a schedule lie on one step",
        "python/leat/mixtures/schedule.py",
        "if self.points and at <= self.points[-1][0]:",
        "if self.points and at < self.points[-1][0]:",
        ("py:test_mix.py::test_a_schedule_that_is_none_is_refused",),
    ),
    Mutation(
        "a mixture that ends its epochs otherwise has the same fingerprint",
        "python/leat/mixtures/mixing.py",
        "            self._exhausted,\n            self.unit,\n            self.epoch_rows,\n",
        "            self.unit,\n            self.epoch_rows,\n",
        ("py:test_mix.py::test_the_fingerprint_follows_from_everything_that_says_the_order",),
    ),
    Mutation(
        "a mixture whose parts were mapped refuses tokenizers that it was to take",
        "python/leat/mixtures/mixing.py",
        "made = Mix(mapped, *options, tokenizers=self.tokenizers)",
        "made = Mix(mapped, *options)",
        ("py:test_decode.py::test_a_mixture_of_different_tokenizers_is_refused", "py:test_mix.py"),
    ),
    Mutation(
        "a value may have two weights",
        "python/leat/mixtures/by_value.py",
        "                if i in taken:\n",
        "                if i in taken and key == taken[i]:\n",
        ("py:test_mix.py::test_weights_by_value_that_do_not_fit_the_column_are_refused",),
    ),
    Mutation(
        "a file of Arrow that changed after it was opened is read",
        "python/leat/data/arrow_ipc.py",
        "        check_stamp(self.path, self.stamp)\n",
        "",
        ("py:test_arrow.py::test_a_file_of_arrow_that_changed_is_an_error",),
    ),
    Mutation(
        "relative paths of a table follow the folder of the process",
        "python/leat/data/arrow.py",
        "columns = Columns(kind, wanted, fill, folder=self._columns.folder)",
        "columns = Columns(kind, wanted, fill)",
        ("py:test_hugging_face.py::test_paths_in_files_are_those_of_the_folder_that_was_present",),
    ),
    Mutation(
        "what fills a missing float may become infinite",
        "python/leat/data/arrow_values.py",
        "kept = np.isfinite(one) | ~np.isfinite(plain) if",
        "kept = np.isfinite(one) | True if",
        ("py:test_arrow_missing.py::test_a_fill_is_a_value_in_full_or_refused",),
    ),
    Mutation(
        "an exception of a source is blamed on the sample behind",
        "python/leat/data/made.py",
        "raise Failed(_BROKEN, k, self._told(e), e) from e",
        "raise Failed(_BROKEN, k + 1, self._told(e), e) from e",
        ("py:test_made.py::test_an_exception_is_told_of_its_sample_and_chained",),
    ),
    Mutation(
        "an array of another type than its field is converted without a word",
        "python/leat/data/made.py",
        'if array.shape != want or array.dtype.newbyteorder("=") != dtype:',
        "if array.shape != want:",
        ("py:test_made.py::test_values_that_do_not_fit_the_fields_are_errors_that_name_source_and_field",),
    ),
    Mutation(
        "an array of float64 is cut to float32 without a word",
        "python/leat/data/writer.py",
        'if not np.can_cast(array.dtype, dtype, "safe"):',
        'if not np.can_cast(array.dtype, dtype, "same_kind"):',
        ("py:test_writer.py::test_a_value_that_does_not_fit_is_an_error_that_names_its_field",),
    ),
    Mutation(
        "a negative position of a view counts from the wrong end",
        "python/leat/data/dataset.py",
        "return np.where(array < 0, array + count, array) if",
        "return np.where(array < 0, array + count - 1, array) if",
        ("py:test_dataset.py::test_views_of_views_are_what_numpy_indexing_is",),
    ),
    Mutation(
        "a file that was replaced is unpickled as if it were the same",
        "python/leat/data/dataset.py",
        '    if dataset.fingerprint != fingerprint:\n        raise ChangedError(\n            f"{path} has changed',
        "    if len(dataset.fingerprint) != len(fingerprint):\n"
        "        raise ChangedError(\n"
        '            f"{path} has changed',
        ("py:test_dataset.py::test_unpickling_notices_that_the_file_was_replaced",),
    ),
    Mutation(
        "an array of 16-bit numbers is written byte by byte into a field of bytes",
        "python/leat/data/writer.py",
        "    if not view.c_contiguous or view.itemsize != 1:\n",
        "    if not view.c_contiguous:\n",
        ("py:test_writer.py::test_a_value_that_does_not_fit_is_an_error_that_names_its_field",),
    ),
    Mutation(
        "numbers are rounded to bfloat16 away from zero where they lie in the middle",
        "python/leat/data/writer.py",
        "rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16",
        "rounded = (bits + 0x8000) >> 16",
        ("py:test_writer.py::test_a_number_in_the_middle_of_two_of_bfloat16_becomes_the_even_one",),
    ),
    Mutation(
        "events of equal time stand in two parts",
        "python/leat/data/events.py",
        'np.searchsorted(times, borders, "right")',
        'np.searchsorted(times, borders, "left")',
        ("py:test_events.py",),
    ),
    Mutation(
        "nodes that are kept out of the first part are drawn among all",
        "python/leat/data/events.py",
        "candidates = np.flatnonzero(self.of(later))",
        "candidates = np.arange(len(self.distinct))",
        ("py:test_events.py",),
    ),
]

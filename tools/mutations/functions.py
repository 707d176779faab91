"""Faults of python/leat/functions: Python functions in the chains of a loader, and random numbers of rows."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "products of 64 bits lose the carry of their middle words",
        "python/leat/functions/philox.py",
        "    middle = carry + below\n",
        "    middle = below + 0 * carry\n",
        ("py:test_row_random.py::test_numpy_torch_and_operations_of_torch_give_the_same_bits",),
    ),
    Mutation(
        "a part of a generator begins anew",
        "python/leat/functions/rows.py",
        "part.calls, part._device = self.calls, self._device",
        "part.calls, part._device = 0, self._device",
        ("py:test_row_random.py::test_a_part_of_the_rows_goes_on_with_their_numbers",),
    ),
    Mutation(
        "all functions of a chain draw the same numbers",
        "python/leat/functions/keyed.py",
        "key = _leat.row_key(name[0], name[1], 0) if _local.key is not None",
        "key = _leat.row_key(name[0], 0, 0) if _local.key is not None",
        ("py:test_map.py::test_the_same_object_in_two_chains_draws_once_and_two_objects_twice",),
    ),
    Mutation(
        "what targets draw before a function is counted as drawn behind it",
        "python/leat/functions/tuples.py",
        "return Cut(entry, images[0], n, n_draws(operators[n:]), chain)",
        "return Cut(entry, images[0], n, n_draws(operators), chain)",
        ("py:test_map_tuples.py",),
    ),
    Mutation(
        "a function writes into the memory that other outputs read",
        "python/leat/functions/steps.py",
        "    array = np.array(value)\n",
        "    array = np.asarray(value)\n",
        ("py:test_map.py::test_what_a_function_gets_is_its_own_to_write_into",),
    ),
    Mutation(
        "pixels that a function gave behind channels first are delivered as they lie",
        "python/leat/workers/running.py",
        "kept.append((i, number, _flat(value.transpose(1, 2, 0) if output.turned else value)))",
        "kept.append((i, number, _flat(value)))",
        (
            "py:test_map.py::test_a_function_may_give_photos_of_any_size",
            "py:test_map_tuples.py::test_images_of_open_size_go_through_functions",
        ),
    ),
    Mutation(
        "a Python function behind a ctypes pointer is called without the interpreter",
        "python/leat/functions/native.py",
        'if any(type(kept).__name__ == "CThunkObject" for kept in (pointer._objects or {}).values()):',
        'if any(type(kept).__name__ == "Thunk" for kept in (pointer._objects or {}).values()):',
        ("py:test_native.py::test_what_is_no_compiled_function_is_refused",),
    ),
    Mutation(
        "a row that is made again goes on with its generator where it was",
        "python/leat/functions/keyed.py",
        "name = (*row, _leat.current_turn())",
        "name = (*row, 0)",
        ("py:test_map.py::test_leat_rng_begins_anew_where_a_row_is_made_again",),
    ),
    Mutation(
        "a result with more dimensions than were declared is taken",
        "python/leat/functions/steps.py",
        "    same = len(found.shape) == len(wanted.shape) and all(",
        "    same = all(",
        ("py:test_map.py::test_a_result_that_differs_names_what_came_and_what_was_wanted",),
    ),
]

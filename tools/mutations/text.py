"""Faults of python/leat/text: tokens of texts and chats, and back."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "padding of a row is decoded as text",
        "python/leat/text/decode.py",
        "ids = ids[documents >= 0] if len(documents) == len(ids) else ids",
        "ids = ids[documents >= -1] if len(documents) == len(ids) else ids",
        ("py:test_decode.py::test_of_rows_padding_is_left_out",),
    ),
    Mutation(
        "tokens are decoded by another tokenizer than made them",
        "python/leat/text/decode.py",
        'if self._said is not None and self._said["hash"] != self.core.hash:',
        'if self._said is not None and self._said.get("hash") is None:',
        ("py:test_decode.py::test_another_tokenizer_does_not_decode_a_pack",),
    ),
    Mutation(
        "of the last turn all that was generated before is learned, too",
        "python/leat/text/chat.py",
        "                if last:\n                    spans = _within(",
        "                if last and not numbers:\n                    spans = _within(",
        ("py:test_chat_parts.py::test_of_several_generated_blocks_those_of_the_last_answer_are_learned",),
    ),
    Mutation(
        "an answer that begins otherwise than it is asked for is cut where the prompt would end",
        "python/leat/text/chat.py",
        "        if not self._text.startswith(prompt, begin, end):\n",
        "        if begin + len(prompt) > end:\n",
        ("py:test_chat.py::test_an_answer_that_begins_otherwise_than_it_is_asked_for_is_an_error",),
    ),
    Mutation(
        "a chat template reaches the attributes of Python's objects",
        "python/leat/text/template.py",
        "    found = sandbox.ImmutableSandboxedEnvironment(\n",
        "    found = sandbox.Environment(\n",
        ("py:test_chat.py::test_a_template_reaches_nothing_outside",),
    ),
    Mutation(
        "bytes of a text that are not UTF-8 become question marks",
        "python/leat/text/records.py",
        "return bytes(raw).decode(), (), len(raw), values",
        'return bytes(raw).decode(errors="replace"), (), len(raw), values',
        ("py:test_tokenize.py::test_text_that_is_not_utf_8_is_named_by_record_and_byte",),
    ),
    Mutation(
        "what was left out of the first of two packs is forgotten",
        "python/leat/text/skipped.py",
        'counts = {name: found.get(name, 0) + now[name] for name in ("on_open", "tokenising")}',
        'counts = {name: now[name] for name in ("on_open", "tokenising")}',
        ("py:test_tokenize.py::test_counts_of_what_was_left_out_add_up_over_two_packs",),
    ),
    Mutation(
        "a token that Megatron's type cannot hold is written as a negative one",
        "python/leat/text/megatron.py",
        "if limit is not None and values.size and int(values.max()) > limit:",
        "if limit is not None and values.size and int(values.max()) > 2 * limit + 1:",
        ("py:test_text.py::test_write_megatron_refuses_types_that_it_cannot_say",),
    ),
    Mutation(
        "a message that is written twice is the last of its places",
        "python/leat/text/template.py",
        "                    several.add(number)\n",
        "                    several.discard(number)\n",
        ("py:test_chat_parts.py::test_a_message_that_is_written_twice_is_an_error",),
    ),
    Mutation(
        "a second result of a prompt replaces the first one",
        "python/leat/text/prompt_files.py",
        "                if self.of[at, 0] >= 0:",
        "                if self.of[at, 0] > len(self.files):",
        ("py:test_cli_prompts.py::test_results_that_are_unknown_or_there_twice_are_named",),
    ),
    Mutation(
        "records with ids are known by line, as one has none",
        "python/leat/text/prompt_files.py",
        "        self._have_no_ids(without)\n",
        "",
        ("py:test_cli_prompts.py::test_one_record_or_result_without_an_id_is_an_error_not_a_matter_of_lines",),
    ),
    Mutation(
        "results of a pack are restored in the order of its plan",
        "python/leat/commands/prompts.py",
        "results.in_order(order)",
        "results.in_order()",
        ("py:test_cli_prompts.py::test_a_pack_becomes_lines_or_a_pack",),
    ),
    Mutation(
        "a value of CSV that is cut off is a result",
        "python/leat/text/prompt_files.py",
        "        if last < at and whole:\n",
        "        if quoted and whole:\n",
        ("py:test_cli_prompts.py::test_results_of_csv_that_a_crash_has_cut_are_left_out",),
    ),
    Mutation(
        "a result that is cut off counts as one",
        "python/leat/text/prompt_files.py",
        "            self._begins, self._ends = self._begins[:-1], self._ends[:-1]",
        "            pass",
        ("py:test_cli_prompts.py::test_after_a_crash_what_is_missing_is_written_and_all_come_back",),
    ),
]

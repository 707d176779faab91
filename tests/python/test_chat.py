"""leat.chat: messages become tokens, and a mask of those that a model is to learn."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from text_support import bpe_file, ranks_file
from text_support import texts as some_texts

import leat

tokenizers = pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

ASKS = "{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}"
BODY = "{{ '<|start|>' + m.role + '\n' + m.content + '<|end|>\n' }}"
PLAIN = "{% for m in messages %}" + BODY + "{% endfor %}" + ASKS
# Says itself what the assistant generates.
MARKED = (
    "{% for m in messages %}{{ '<|start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content + '<|end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|end|>' }}{% endif %}"
    "{{ '\n' }}{% endfor %}" + ASKS
)
# Leaves the thoughts of earlier turns out, so that a chat is not how a longer one begins.
THINKS = (
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}"
    "{% endif %}{% endfor %}{% for m in messages %}{{ '<|start|>' + m.role + '\n' }}{% if m.role == 'assistant' and "
    "loop.index0 > ns.last %}{{ '<think>\n' + m.get('thoughts', '') + '</think>' }}{% endif %}"
    "{{ m.content + '<|end|>\n' }}{% endfor %}" + ASKS
)
# Begins messages in the text of those before them, and continues where a condition holds.
BRACKETS = (
    "{% set rest = messages[1:] if messages and messages[0].role == 'system' else messages %}{% for m in rest %}"
    "{% if m.role == 'user' %}{{ '[INST] ' }}{% if loop.first and messages[0].role == 'system' %}"
    "{{ messages[0].content + '\n\n' }}{% endif %}{{ m.content + ' [/INST]' }}{% continue %}{% endif %}"
    "{{ ' ' + m.content + '<|end|>' }}{% endfor %}"
)


def said(*contents: str, system: str | None = None) -> list[dict[str, Any]]:
    """Messages of the user and the assistant by turns."""
    roles = ("user", "assistant")
    first = [] if system is None else [{"role": "system", "content": system}]
    return first + [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]


def learned(template: str, messages: list[dict[str, Any]], **options: Any) -> list[str]:
    text, spans = leat.chat(template, **options)._of(None).learned(messages, options.get("tools"))
    return [text[begin:end] for begin, end in spans]


def chats(n: int) -> list[list[dict[str, Any]]]:
    found = some_texts(8 * n)
    return [said(*found[i : i + 2 + 2 * (i % 3)], system=found[i] if i % 2 else None) for i in range(n)]


def pack_chats(path: Path, found: list[Any], **columns: list[Any]) -> leat.Dataset:
    with leat.Writer(path, {"messages": "json", **dict.fromkeys(columns, "json")}) as w:
        for i, one in enumerate(found):
            w.write({"messages": one, **{name: values[i] for name, values in columns.items()}})
    return leat.open(path)


def test_the_answers_are_learned_and_not_how_they_are_asked_for() -> None:
    talk = said("to be?", "or not", "that is", "the question", system="be")
    assert learned(PLAIN, talk) == ["or not<|end|>\n", "the question<|end|>\n"]
    assert learned(BRACKETS, talk) == [" or not<|end|>", " the question<|end|>"]


def test_a_template_that_says_what_is_generated_is_followed() -> None:
    talk = said("to be?", "or not", "that is", "the question")
    assert learned(MARKED, talk) == ["or not<|end|>", "the question<|end|>"]
    wrapped = "{% macro all() %}" + MARKED + "{% endmacro %}{{ '<s>' }}{{ all() }}"
    assert learned(wrapped, talk) == ["or not<|end|>", "the question<|end|>"]


def test_other_roles_are_learned_with_what_begins_them() -> None:
    talk = said("to be?", "or not", system="be")
    assert learned(PLAIN, talk, learn=["system", "assistant"]) == [
        "<|start|>system\nbe<|end|>\n",
        "or not<|end|>\n",
    ]
    assert learned(MARKED, talk, learn=["user"]) == ["<|start|>user\nto be?<|end|>\n"]


def test_the_last_turn_alone_may_be_learned() -> None:
    talk = said("a", "b", "c", "d", "e")
    for template in (PLAIN, MARKED):
        assert [part[0] for part in learned(template, talk, turns="last")] == ["d"]


def test_a_template_that_writes_earlier_turns_otherwise_is_followed() -> None:
    talk = said("a", "b", "c", "d")
    talk[1]["thoughts"] = talk[3]["thoughts"] = "hm"
    assert learned(THINKS, talk) == ["b<|end|>\n", "<think>\nhm</think>d<|end|>\n"]


def test_without_a_loop_over_messages_prefixes_tell_what_is_learned() -> None:
    shown = "{{ messages[0].content + '|' if messages }}{{ messages[1].content + '.' if messages | length > 1 }}"
    assert learned(shown, said("a", "b")) == ["b."]
    over = "{{ (messages | length) ~ ':' }}" + shown
    with pytest.raises(leat.InvalidError, match="message 1: which part of the text it is cannot be told.*generation"):
        learned(over, said("a", "b"))


def test_marks_in_a_filter_that_changes_them_are_not_trusted() -> None:
    upper = "{% filter upper %}" + PLAIN + "{% endfilter %}"
    assert learned(upper, said("a", "b")) == ["B<|END|>\n"]
    with pytest.raises(leat.InvalidError, match="generation.*within a filter"):
        learned("{% filter trim %}{% generation %} a {% endgeneration %}{% endfilter %}", said("a", "b"))


def test_an_answer_that_begins_otherwise_than_it_is_asked_for_is_an_error() -> None:
    asks = PLAIN.replace("'<|start|>assistant\n'", "'<|start|>assistant\n<think>'")
    with pytest.raises(leat.InvalidError, match="message 1: the chat template asks for an answer with .*prompt="):
        learned(asks, said("a", "b"))
    assert learned(asks, said("a", "b"), prompt="<|start|>assistant\n") == ["b<|end|>\n"]


def test_tools_and_variables_reach_the_template() -> None:
    template = "{{ tools | tojson if tools }}{{ extra }}" + PLAIN
    text = leat.chat(template, variables={"extra": "<x>"}).text(said("a"), tools=[{"name": "é<&"}])
    assert text.startswith('[{"name": "é<&"}]<x><|start|>user')


def test_the_day_is_given_or_unknown() -> None:
    template = "{{ strftime_now('%Y-%m-%d') }}" + PLAIN
    assert leat.chat(template, date=datetime.date(2024, 7, 26)).text(said("a")).startswith("2024-07-26<")
    with pytest.raises(leat.InvalidError, match="asks for the day: give date="):
        leat.chat(template).text(said("a"))
    asked = "{% if strftime_now is defined %}now{% else %}then{% endif %}"
    assert leat.chat(asked).text(said("a")) == "then"


@pytest.mark.parametrize(
    "messages, message",
    [
        ({"role": "user"}, "a list of messages is wanted, not an object"),
        ([], "there is no message"),
        (["a"], "message 0 is a text, not an object with a role"),
        ([{"role": "user", "content": "a"}, {"from": "gpt", "value": "b"}], "message 1 has no role.*from, value"),
        ([{"role": 3}], "message 0 has no role that is a text"),
    ],
)
def test_what_is_no_chat_is_named(messages: Any, message: str) -> None:
    with pytest.raises(leat.InvalidError, match=message):
        leat.chat(PLAIN).text(messages)


def test_a_template_that_refuses_says_which_message_and_line() -> None:
    template = "{% for m in messages %}\n{% if m.role == 'tool' %}\n{{ raise_exception('no tools') }}{% endif %}" + BODY
    with pytest.raises(
        leat.InvalidError, match=r"message 2: the chat template \(template, line 3\) refuses it: no too"
    ):
        leat.chat(template + "{% endfor %}").text([*said("a", "b"), {"role": "tool", "content": "c"}])


def test_a_template_reaches_nothing_outside() -> None:
    with pytest.raises(leat.InvalidError, match="unsafe|undefined"):
        leat.chat("{{ messages.__class__.__mro__ }}").text(said("a"))
    with pytest.raises(leat.InvalidError, match="not safely callable|unsafe"):
        leat.chat("{{ messages.append(3) }}").text(said("a"))


def test_a_template_that_is_no_jinja_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("{% for m in messages %}\n\n{% endfo %}")
    with pytest.raises(leat.FormatError, match=r"chat_template.jinja: the chat template is no Jinja2, line 3"):
        leat.chat(tmp_path).text(said("a"))


def test_the_template_is_found_beside_the_tokenizer(tmp_path: Path) -> None:
    file = bpe_file(tmp_path)
    with pytest.raises(FileNotFoundError, match="has no chat template"):
        leat.chat().text(said("a"), file)
    config = {"chat_template": "{{ bos_token }}" + PLAIN, "bos_token": {"content": "<s>"}, "eos_token": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert leat.chat().text(said("a"), file) == leat.chat().text(said("a"), tmp_path) == "<s><|start|>user\na<|end|>\n"
    assert leat.chat("{{ bos_token }}{{ eos_token }}.").text(said("a"), file) == "<s>."
    (tmp_path / "chat_template.jinja").write_text("own")
    assert leat.chat().text(said("a"), file) == "own"


def test_of_several_templates_the_one_for_tools_is_taken_with_tools(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    path = tmp_path / "tokenizer_config.json"
    assert [leat.chat(path).text(said("a"), tools=t) for t in (None, [], [{}])] == ["plain", "plain", "tools"]


def test_a_token_that_the_template_writes_must_be_known(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="writes bos_token, and there is no tokenizer_config.json"):
        leat.chat("{{ bos_token }}" + PLAIN).text(said("a"))


def test_a_pack_has_tokens_and_which_of_them_are_learned(tmp_path: Path) -> None:
    found = chats(60)
    file = bpe_file(tmp_path)
    ds = pack_chats(tmp_path / "c.leat", found, number=list(range(60)))
    made = leat.tokenize(ds, tmp_path / "o.leat", tokenizer=file, chat=leat.chat(MARKED)).open()
    assert {n: f.dtype for n, f in made.schema.items() if not f.derived} == {
        "tokens": "uint16",
        "loss_mask": "bool",
        "number": "uint8",
    }
    core = tokenizers.Tokenizer.from_file(str(file))
    for talk, got in zip(found, made, strict=True):
        text, spans = leat.chat(MARKED)._of(None).learned(talk, None)
        want = core.encode(text, add_special_tokens=False)
        assert got["tokens"].tolist() == want.ids
        inside = [any(b < end and e > begin for begin, end in spans) for b, e in want.offsets]
        assert got["loss_mask"].tolist() == inside
    assert made.metadata["chat"]["learn"] == ["assistant"] and made.metadata["chat"]["file"] == "template"


@pytest.mark.shard("torch")  # which has transformers
def test_tokens_and_mask_are_those_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(bpe_file(tmp_path)), chat_template=MARKED)
    for talk in chats(40):
        want = theirs.apply_chat_template(talk, return_dict=True, return_assistant_tokens_mask=True)
        tokens, mask = leat.chat().tokens(talk, theirs)
        assert tokens.tolist() == want["input_ids"]
        assert mask.astype(int).tolist() == want["assistant_masks"]


def test_of_a_letter_of_several_tokens_all_are_learned(tmp_path: Path) -> None:
    tokens, mask = leat.chat(MARKED.replace("<|end|>", "")).tokens(said("ä", "ä𝄞"), bpe_file(tmp_path))
    assert mask.sum() == 6 and mask[-7:].tolist() == [True] * 6 + [False]


def test_with_tiktoken_the_bytes_of_tokens_tell_what_is_learned(tmp_path: Path) -> None:
    pytest.importorskip("tiktoken")
    from leat.text import tokenizer as inside

    core = inside.load(ranks_file(tmp_path), pattern=r"\w+|\W+", special_tokens={"<|end|>": 262})
    tokens, mask = leat.chat(MARKED).tokens(said("the ä", "ä 𝄞 the"), core)
    assert bytes(core.core.decode_bytes(tokens[mask].tolist())).decode() == "ä 𝄞 the<|end|>"


def test_rows_keep_what_is_learned(tmp_path: Path) -> None:
    ds = pack_chats(tmp_path / "c.leat", chats(60))
    made = leat.tokenize(ds, tmp_path / "o.leat", tokenizer=bpe_file(tmp_path), chat=leat.chat(PLAIN)).open()
    rows = leat.pack_rows(made, "tokens", 64, how="cut")
    want = np.concatenate([one["loss_mask"] for one in made])
    assert np.concatenate([rows[i]["loss_mask"] for i in range(len(rows))])[: len(want)].tolist() == want.tolist()


def test_a_chat_that_cannot_be_used_is_raised_or_left_out_and_listed(tmp_path: Path) -> None:
    found: list[Any] = [said("a", "b"), {"messages": 3}, said("c", "d")]
    ds = pack_chats(tmp_path / "c.leat", found)
    options: dict[str, Any] = {"tokenizer": bpe_file(tmp_path), "chat": leat.chat(PLAIN)}
    with pytest.raises(leat.InvalidError, match="record 1, field 'messages': a list of messages is wanted"):
        leat.tokenize(ds, tmp_path / "o", **options)
    made = leat.tokenize(ds, tmp_path / "o", on_bad="skip", overwrite=True, **options)
    assert (made.documents, made.skipped) == (2, 1)
    assert "a list of messages is wanted" in (tmp_path / "o.bad.jsonl").read_text()


def test_where_nothing_is_learned_a_warning_says_so(tmp_path: Path) -> None:
    ds = pack_chats(tmp_path / "c.leat", [said("a", "b")])
    with pytest.warns(UserWarning, match="no token is learned: no message has one of the roles gpt"):
        leat.tokenize(ds, tmp_path / "o", tokenizer=bpe_file(tmp_path), chat=leat.chat(PLAIN, learn=["gpt"]))


def test_a_role_that_no_message_has_is_named(tmp_path: Path) -> None:
    ds = pack_chats(tmp_path / "c.leat", [said("a", "b"), said("c")])
    with pytest.warns(UserWarning, match="no message has the role 'tol', of those that are to be learned from"):
        chat = leat.chat(PLAIN, learn=["assistant", "tol"])
        leat.tokenize(ds, tmp_path / "o", tokenizer=bpe_file(tmp_path), chat=chat)


def test_another_template_does_not_continue_a_pack(tmp_path: Path) -> None:
    ds = pack_chats(tmp_path / "c.leat", [said("a", "b"), 3])
    options: dict[str, Any] = {"tokenizer": bpe_file(tmp_path)}
    with pytest.raises(leat.InvalidError):
        leat.tokenize(ds, tmp_path / "o", chat=leat.chat(PLAIN), **options)
    with pytest.raises(leat.ChangedError, match="the chat changed since this was begun"):
        leat.tokenize(ds, tmp_path / "o", chat=leat.chat(MARKED), resume=True, **options)


def test_chats_in_columns_of_text_and_arrow_are_read(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    talk = said("a", "b")
    file = bpe_file(tmp_path)
    want = leat.chat(PLAIN).tokens(talk, file)
    for i, column in enumerate((pa.array([talk, talk]), pa.array([json.dumps(talk)] * 2))):
        ds = leat.from_arrow(pa.table({"messages": column}))
        made = leat.tokenize(ds, tmp_path / str(i), tokenizer=file, chat=leat.chat(PLAIN)).open()
        assert made[1]["tokens"].tolist() == want[0].tolist() and made[1]["loss_mask"].tolist() == want[1].tolist()


@pytest.mark.parametrize("nothing", ["", " \n ", "{# none #}", "{% set x = 1 %}", "{% if true %} {% endif %}"])
def test_marks_around_nothing_are_an_error_that_names_their_line(nothing: str) -> None:
    empty = f"{{# a line #}}\n{{% generation %}}{nothing}{{% endgeneration %}}" + PLAIN
    with pytest.raises(leat.FormatError, match=r"template: .*generation %} in line 2 .* stands around nothing.*put it"):
        learned(empty, said("a", "b"))
    assert "b" in leat.chat(empty, learn=["user"]).text(said("a", "b"))


@pytest.mark.parametrize(
    "something", ["x", "{{ messages[1].content }}", "{% for m in messages %}{{ m.role }}{% endfor %}"]
)
def test_marks_around_something_are_none(something: str) -> None:
    made = f"{{% generation %}}{something}{{% endgeneration %}}"
    assert learned(made, said("a", "b")) == [
        {"x": "x"}.get(something, "b" if "content" in something else "userassistant")
    ]

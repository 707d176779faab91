"""Which part of a chat is learned, where a template makes this hard to tell: it is told right, or an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import leat

pytest.importorskip("jinja2")

ASKS = "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
PLAIN = "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '!' }}{% endfor %}" + ASKS
MARKED = (
    "{% for m in messages %}{{ '<' + m.role + '>' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content + '!' }}"
    "{% endgeneration %}{% else %}{{ m.content + '!' }}{% endif %}{% endfor %}" + ASKS
)
# Asks for an answer within its loop, as Zephyr's.
INSIDE = (
    "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '!' }}"
    "{% if loop.last and add_generation_prompt %}{{ '<assistant>' }}{% endif %}{% endfor %}"
)
# Writes what the system says into what the user says first, as that of Llama 2.
AMONG = (
    "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set said = messages[0].content %}"
    "{% else %}{% set rest = messages %}{% set said = '' %}{% endif %}{{ '<s>' }}{% for m in rest %}"
    "{% if m.role == 'user' %}{{ '[' + (said + '|' if loop.first else '') + m.content + ']' }}"
    "{% else %}{{ ' ' + m.content + '</s>' }}{% endif %}{% endfor %}"
)


def said(*contents: str, first: str = "user") -> list[dict[str, Any]]:
    """Messages of the user and the assistant by turns; or of the assistant and the user."""
    roles = ("user", "assistant") if first == "user" else ("assistant", "user")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def learned(template: str, messages: list[dict[str, Any]], **options: Any) -> list[str]:
    text, spans = leat.chat(template, **options)._of(None).learned(messages, options.get("tools"))
    return [text[begin:end] for begin, end in spans]


def test_turns_of_messages_that_a_template_made_itself_are_not_learned() -> None:
    copies = (
        "{% set ns = namespace(out=[]) %}{% for m in messages %}{% if m.role == 'user' %}"
        "{% set ns.out = ns.out + [{'role': 'user', 'content': m.content}] %}{% else %}{% set ns.out = ns.out + [m] %}"
        "{% endif %}{% endfor %}" + PLAIN.replace("in messages", "in ns.out")
    )
    assert learned(copies, said("q1", "a1", "q2", "a2")) == ["a1!", "a2!"]
    more = PLAIN.replace("in messages", "in messages + [{'role': 'system', 'content': 'END'}]")
    assert learned(more, said("q1", "a1"), prompt="<assistant>") == ["a1!"]


@pytest.mark.parametrize("turns", ["all", "last"])
def test_of_a_chat_that_begins_with_an_answer_the_header_is_not_learned(turns: str) -> None:
    talk = said("a0", "q1", "a1", first="assistant")
    assert learned(INSIDE, talk, turns=turns) == ["a0!", "a1!"][-2 if turns == "all" else -1 :]
    assert learned(INSIDE, talk[:2], turns=turns) == learned(PLAIN, talk[:2], turns=turns) == ["a0!"]


def test_a_template_that_reads_its_first_message_takes_a_chat_that_begins_with_an_answer() -> None:
    reads = "{{ messages[0].role[:0] + messages[-1].role[:0] }}" + PLAIN
    assert learned(reads, said("a0", "q1", "a1", first="assistant")) == ["a0!", "a1!"]


def test_a_prompt_that_is_asked_for_behind_the_user_alone_is_not_taken_for_none() -> None:
    asks = PLAIN.replace("if add", "if messages[-1].role == 'user' and add")
    talk = [system("s"), *said("a0", "q1", "a1", first="assistant")]
    assert learned(asks, talk) == ["a0!", "a1!"]
    tool = [*said("q", "a0"), {"role": "tool", "content": "t"}, {"role": "assistant", "content": "a1"}]
    assert learned(asks, tool, turns="last") == ["a1!"]
    for alone in (talk[:2], talk[1:2]):
        with pytest.raises(leat.InvalidError, match=r"message \d: with what the chat template asks .*prompt= says it"):
            learned(asks, alone)
        assert learned(asks, alone, prompt="<assistant>") == ["a0!"]


def test_a_message_that_is_written_among_others_is_an_error() -> None:
    talk = [system("s"), *said("q1", "a1")]
    assert learned(AMONG, talk) == [" a1</s>"]
    with pytest.raises(leat.InvalidError, match="message 0: which part of the text it is cannot be told"):
        learned(AMONG, talk, learn=["system", "assistant"])
    drops = "{{ '<s>' }}" + PLAIN.replace("in messages", "in messages if m.role != 'system'")
    with pytest.raises(leat.InvalidError, match="message 0: .* leaves it out, or writes it among others"):
        learned(drops, talk, learn=["system"])
    assert learned(drops, [system(""), *talk[1:]], learn=["system"]) == [""]


def test_a_message_that_is_written_twice_is_an_error() -> None:
    twice = "{% for m in messages %}{{ m.content + ',' }}{% endfor %}" + PLAIN
    with pytest.raises(leat.InvalidError, match="message 1: which part of the text it is cannot be told"):
        learned(twice, said("q1", "a1"))


@pytest.mark.parametrize(
    "template, options, message",
    [
        (
            "{{ raise_exception('too few') if messages | length < 2 }}{% for m in messages[1:] %}{{ m.content }}"
            "{% endfor %}",
            {"learn": ["system", "user"]},
            "message 0: which part of the text it is cannot be told: .*too few",
        ),
        (
            "{% set x %}{% generation %}thoughts</think>so{% endgeneration %}{% endset %}{{ x.split('</think>')[-1] }}",
            {},
            "generation.* stands where the template changes",
        ),
        (
            "{% set x %}{% generation %}so</think>{% endgeneration %}{% endset %}{{ x.split('</think>')[0] }}",
            {},
            "generation.* stands where the template changes",
        ),
    ],
)
def test_a_chat_that_cannot_be_told_to_pieces_is_a_broken_record(
    template: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(leat.InvalidError, match=message):
        learned(template, [system("s"), *said("q1")], **options)


@pytest.mark.parametrize("name", ["upper", "lower", "trim", "replace('1', '2')"])
def test_marks_of_what_is_generated_pass_filters(name: str) -> None:
    found = learned(
        "{% filter NAME %}{% generation %}Ab{% endgeneration %}{% endfilter %}".replace("NAME", name), said("q")
    )
    assert [part.lower() for part in found] == ["ab"]


def test_of_several_generated_blocks_those_of_the_last_answer_are_learned() -> None:
    calls = MARKED.replace(
        "{{ m.content + '!' }}{% endg", "{{ m.content }}{% endgeneration %}|{% generation %}!{% endg"
    )
    talk = said("q1", "a1", "q2", "a2", "q3")
    assert learned(calls, talk) == ["a1", "!", "a2", "!"]
    assert learned(calls, talk, turns="last") == ["a2", "!"]
    whole = "{% generation %}" + PLAIN + "{% endgeneration %}"
    assert learned(whole, talk, turns="last") == ["<assistant>a2!"]
    assert learned(MARKED, talk[:1], turns="last") == []
    with pytest.raises(leat.InvalidError, match="message 3: which part of the text it is cannot be told"):
        learned(
            "{{ messages | length }}{% generation %}{{ messages[1].content }}{% endgeneration %}", talk, turns="last"
        )


@pytest.mark.parametrize(
    "template, message",
    [
        ("{% for m in messages %}\n{{ m | fromjson }}{% endfor %}", "line 2: No filter named 'fromjson'"),
        ("{{ 1 }}\n\n{% if messages %}\n{% break %}{% endif %}", "line 4: 'break' outside loop"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "it is nested too deep"),
    ],
)
def test_a_template_that_does_not_compile_is_named(template: str, message: str) -> None:
    with pytest.raises(leat.FormatError, match="^template: the chat template is no Jinja2,? ?:?.*" + message):
        leat.chat(template).text(said("a"))


@pytest.mark.parametrize("value", [{1, 2}, object(), b"x", lambda: 3])
def test_values_that_have_no_json_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="variables are values that JSON has"):
        leat.chat(PLAIN, variables={"x": value})


@pytest.mark.parametrize("option", ["messages", "tools"])
def test_another_field_does_not_continue_a_pack(tmp_path: Path, option: str) -> None:
    from text_support import bpe_file

    pytest.importorskip("tokenizers")
    talk = said("q1", "a1")
    with leat.Writer(tmp_path / "c.leat", {"messages": "json", "other": "json"}) as w:
        w.add(messages=talk, other=talk)
        w.add(messages=3, other=talk)
    words: dict[str, Any] = {"tokenizer": bpe_file(tmp_path), "fields": []}
    with pytest.raises(leat.InvalidError, match="a list of messages is wanted"):
        leat.tokenize(leat.open(tmp_path / "c.leat"), tmp_path / "o", chat=leat.chat(PLAIN), **words)
    with pytest.raises(leat.ChangedError, match="the chat changed since this was begun"):
        chat = leat.chat(PLAIN, **{option: "other"})
        leat.tokenize(leat.open(tmp_path / "c.leat"), tmp_path / "o", chat=chat, resume=True, **words)


def test_a_file_and_the_tokenizer_made_of_it_have_one_hash(tmp_path: Path) -> None:
    from text_support import bpe_text

    from leat.text import tokenizer as inside

    tokenizers = pytest.importorskip("tokenizers")
    parsed = json.loads(bpe_text())
    parsed["model"]["merges"] = [one if isinstance(one, str) else " ".join(one) for one in parsed["model"]["merges"]]
    for name in ("byte_fallback", "ignore_merges", "dropout"):
        parsed["model"].pop(name, None)
    parsed["padding"] = {
        "strategy": "BatchLongest",
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<|end|>",
    }
    path = tmp_path / "old.json"
    path.write_text(json.dumps(parsed, indent=3))
    hashes = {inside.load(path).hash, inside.load(tokenizers.Tokenizer.from_file(str(path))).hash}
    assert hashes == {inside.load(tokenizers.Tokenizer.from_str(bpe_text())).hash}
    parsed["model"]["byte_fallback"] = True
    path.write_text(json.dumps(parsed))
    assert inside.load(path).hash not in hashes

"""Tokens: targets of models in pre-training."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any

from . import arguments as a
from .base import Operator

__all__ = ["FillInTheMiddle", "MaskTokens", "SpanCorruption"]


token = a.whole(0, (1 << 53) - 1)


def _special(what: str, ids: Any) -> tuple[int, ...]:
    special = tuple(token(what, i) for i in a.integers(what, ids))
    if len(special) > 64:
        raise ValueError(f"{what} are at most 64 tokens, not {len(special)}")
    return special


def _shares(what: str, value: Any) -> tuple[float, ...]:
    shares = a.numbers(what, value)
    if len(shares) != 2 or min(shares) < 0 or sum(shares) > 1:
        raise ValueError(f"{what} is two shares from 0 that sum to at most 1, not {value!r}")
    return shares


_part = a.choice("labels")
Token = Annotated[int, token]
MaybeToken = Annotated[int | None, a.maybe(token)]


class _Targets(Operator):
    """Operators that give tokens and their labels; `part` names the one of both that the operator makes."""

    def _set(self, name: str | None, **values: Any) -> None:
        super()._set(name, **{k: v for k, v in values.items() if k != "part" or v is not None})


class MaskTokens(_Targets):
    """Hides some tokens, whose ids are to be predicted (Devlin et al., "BERT", 2019): gives `tokens` and
    ``tokens.labels``, both int64, of the tokens' shape.

    Args:
        mask_id: the substitute for a hidden token.
        vocab_size: random tokens are uniform in ``[0, vocab_size)``.
        special_ids: tokens that are never chosen, at most 64: such as those of the beginning and the end, and `fill`.
        p: the probability that a token is chosen.
        replace: the share of the chosen ones that becomes `mask_id`, and the share that becomes a random token; the
            rest stays as it is.

    Labels are the tokens that were chosen, and -100 elsewhere, which PyTorch's cross entropy leaves out. Each token
    draws one uniform number, which says all but the id of a random token. Values have a fixed length, as rows of
    :func:`leat.pack_rows`, or any length, as documents and the tokens of :class:`Lookup`. The operator is the last of
    its chain but for ToDtype, which then holds for both outputs, and PadTo, which fills labels with -100.

    >>> mask = leat.ops.MaskTokens(103, 30522, special_ids=(0, 101, 102))
    >>> mask
    MaskTokens(mask_id=103, vocab_size=30522, special_ids=(0, 101, 102), p=0.15, replace=(0.8, 0.1))
    """

    mask_id: Token
    vocab_size: Annotated[int, a.whole(1, (1 << 53) - 1)]
    special_ids: Annotated[Sequence[int], _special] = ()
    p: a.Chance = 0.15
    replace: Annotated[tuple[float, float], _shares] = (0.8, 0.1)
    _: KW_ONLY
    part: Annotated[str | None, a.maybe(_part)] = None

    def _check(self) -> None:
        if self.mask_id >= self.vocab_size:
            raise ValueError(f"mask_id is below vocab_size, {self.vocab_size}, not {self.mask_id}")


class SpanCorruption(_Targets):
    """Replaces spans of tokens by sentinels, after which they are to be predicted (Raffel et al., "T5", 2020): gives
    `tokens` (the rest, with a sentinel for each span) and ``tokens.labels`` (each sentinel and its span), int64.

    Args:
        sentinel_id: the id of the first sentinel; the next ones count down from it. T5's is ``vocab_size - 1``.
        density: the share of tokens that is replaced: ``round(n * density)`` of n tokens.
        mean_length: of a span: there are ``round(noise / mean_length)``.
        eos: put at the end of both, or None.
        fill: tokens equal to it at the end of a value are padding, and left out; shorter results are filled with it,
            labels with -100. None: a value is tokens to its end.
        length: for fields of varying length: the most tokens that are taken of a value; `fill` must be given, too.

    As in T5's code, the noise and the rest are each divided uniformly at random into as many parts as there are spans,
    and the rest comes first. So the lengths of both outputs follow from the number of tokens: rows of 2048 tokens
    become 1843 tokens with 102 spans in 409 labels. Halves are rounded up.

    >>> spans = leat.ops.SpanCorruption(32127, eos=1)
    >>> spans
    SpanCorruption(sentinel_id=32127, density=0.15, mean_length=3.0, eos=1, fill=None, length=None)
    """

    sentinel_id: Token
    density: Annotated[float, a.number(1e-6, 1 - 1e-6)] = 0.15
    mean_length: Annotated[float, a.number(1, 1e6)] = 3.0
    _: KW_ONLY
    eos: MaybeToken = None
    fill: MaybeToken = None
    length: Annotated[int | None, a.maybe(a.whole(2, 1 << 20))] = None
    part: Annotated[str | None, a.maybe(_part)] = None


class FillInTheMiddle(Operator):
    """Moves the middle of documents to their end, so that a model learns to fill it in (Bavarian et al., "Efficient
    Training of Language Models to Fill in the Middle", 2022). Gives int64.

    Args:
        prefix_id, middle_id, suffix_id: the tokens that mark the parts.
        rate: the probability that a document is changed.
        spm: the share of those changed that has the suffix before the prefix ("SPM", the paper's second variant):
            ``<PRE> <SUF> suffix <MID> prefix middle`` in the place of ``<PRE> prefix <SUF> suffix <MID> middle``.
        eos: the token that ends documents, so that each document of a packed row is changed by itself. It stays where
            it is. None: a row is one document.
        fill: tokens equal to it at the end of a row are padding.

    Documents are changed in their place in a row (the context level of the paper), cut between tokens, at two places
    that are uniform. A document keeps its length, and so ``doc_ids`` and ``positions`` of packed rows hold: its last
    three tokens make room for the marks. Documents of fewer than 4 tokens stay.

    >>> leat.ops.FillInTheMiddle(50281, 50282, 50283, rate=0.9, eos=50256)
    FillInTheMiddle(prefix_id=50281, middle_id=50282, suffix_id=50283, rate=0.9, spm=0.5, eos=50256, fill=None)
    """

    prefix_id: Token
    middle_id: Token
    suffix_id: Token
    rate: a.Chance = 0.5
    spm: a.Chance = 0.5
    _: KW_ONLY
    eos: MaybeToken = None
    fill: MaybeToken = None


def part_of(op: Operator, part: str, name: str | None) -> Operator:
    """The operator that makes the other output of one, with the same draws."""
    made = object.__new__(type(op))
    object.__setattr__(made, "name", name)
    object.__setattr__(made, "_values", {**op._values, "part": part})
    return made


def has_labels(op: Operator) -> bool:
    """Whether an operator gives labels beside its tokens."""
    return isinstance(op, (MaskTokens, SpanCorruption)) and "part" not in op._values

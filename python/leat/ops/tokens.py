"""Tokens: targets of models in pre-training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import check
from .base import Operator, _chance, _integers, _numbers

__all__ = ["FillInTheMiddle", "MaskTokens", "SpanCorruption"]


def _token(name: str, value: Any) -> int:
    return check.integer(name, value, 0, 1 << 53)


def _maybe(name: str, value: Any) -> int | None:
    return None if value is None else _token(name, value)


class MaskTokens(Operator):
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
    draws one uniform number, which says all but the id of a random token. Values must have a fixed length: rows of
    :func:`leat.pack_rows`, or a field of such a shape. The operator is the last of its chain but for ToDtype, which
    then holds for both outputs.

    >>> mask = leat.ops.MaskTokens(103, 30522, special_ids=(0, 101, 102))
    >>> mask
    MaskTokens(mask_id=103, vocab_size=30522, special_ids=(0, 101, 102), p=0.15, replace=(0.8, 0.1))
    """

    def __init__(
        self,
        mask_id: int,
        vocab_size: int,
        special_ids: Sequence[int] = (),
        p: float = 0.15,
        replace: tuple[float, float] = (0.8, 0.1),
        *,
        part: str | None = None,
        name: str | None = None,
    ) -> None:
        special = tuple(_token("special_ids", i) for i in _integers("special_ids", special_ids))
        size = check.integer("vocab_size", vocab_size, 1, 1 << 53)
        if len(special) > 64:
            raise ValueError(f"special_ids are at most 64 tokens, not {len(special)}")
        shares = _numbers("replace", replace)
        if len(shares) != 2 or min(shares) < 0 or sum(shares) > 1:
            raise ValueError(f"replace is two shares from 0 that sum to at most 1, not {replace!r}")
        if not 0 <= _token("mask_id", mask_id) < size:
            raise ValueError(f"mask_id is below vocab_size, {size}, not {mask_id}")
        values: dict[str, Any] = {"mask_id": _token("mask_id", mask_id), "vocab_size": size, "special_ids": special,
                                  "p": _chance(p), "replace": shares}  # fmt: skip
        super().__init__(name, **values, **({} if part is None else {"part": part}))


class SpanCorruption(Operator):
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

    def __init__(
        self,
        sentinel_id: int,
        density: float = 0.15,
        mean_length: float = 3.0,
        *,
        eos: int | None = None,
        fill: int | None = None,
        length: int | None = None,
        part: str | None = None,
        name: str | None = None,
    ) -> None:
        (share,), (mean,) = _numbers("density", [density]), _numbers("mean_length", [mean_length])
        if not 1e-6 <= share <= 1 - 1e-6:
            raise ValueError(f"density is between 0 and 1, not {density!r}")
        if not 1 <= mean <= 1e6:
            raise ValueError(f"mean_length is 1 or more tokens, not {mean_length!r}")
        most = None if length is None else check.integer("length", length, 2, (1 << 20) + 1)
        values: dict[str, Any] = {"sentinel_id": _token("sentinel_id", sentinel_id), "density": share,
                                  "mean_length": mean, "eos": _maybe("eos", eos), "fill": _maybe("fill", fill),
                                  "length": most}  # fmt: skip
        super().__init__(name, **values, **({} if part is None else {"part": part}))


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

    def __init__(
        self,
        prefix_id: int,
        middle_id: int,
        suffix_id: int,
        rate: float = 0.5,
        spm: float = 0.5,
        *,
        eos: int | None = None,
        fill: int | None = None,
        name: str | None = None,
    ) -> None:
        (changed,), (second,) = _numbers("rate", [rate]), _numbers("spm", [spm])
        for what, share in (("rate", changed), ("spm", second)):
            if not 0 <= share <= 1:
                raise ValueError(f"{what} is a probability, from 0 to 1, not {share!r}")
        super().__init__(
            name,
            prefix_id=_token("prefix_id", prefix_id),
            middle_id=_token("middle_id", middle_id),
            suffix_id=_token("suffix_id", suffix_id),
            rate=changed,
            spm=second,
            eos=_maybe("eos", eos),
            fill=_maybe("fill", fill),
        )


def labels_of(op: Operator, name: str) -> Operator:
    """The operator that makes the labels of one, with the same draws."""
    made = object.__new__(type(op))
    object.__setattr__(made, "name", name)
    object.__setattr__(made, "_values", {**op._values, "part": "labels"})
    return made


def has_labels(op: Operator) -> bool:
    """Whether an operator gives labels beside its tokens."""
    return isinstance(op, (MaskTokens, SpanCorruption)) and "part" not in op._values

"""Prompts in an order in which those that share a prefix stand together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _leat, check
from ..errors import ChangedError
from .dataset import Dataset, no_dataset
from .ragged import Ragged

MOST_DECODE = (1 << 32) - 1
PART = 1 << 16  #: prompts whose own tokens are counted at a time
_GROUP = np.dtype([("first", np.int64), ("count", np.int64), ("prefix", np.int64)])

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Saved(NamedTuple):
    """Parts of all tokens that a cache has when their prompt comes, by the order of the prompts."""

    as_they_came: float
    sorted: float
    grouped: float


class Prompts(Dataset):
    """Prompts of a data set in groups; made by :func:`leat.group_prompts`.

    It has the fields of the data set, and ``group`` and ``prefix_length`` (int64), in the order of groups. The id of a
    prompt is its place in that order, so what ``batch.ids`` says of a batch is where its results belong.

    Attributes:
        prompts: the data set that was grouped.
        groups: of each group ``first`` and ``count``, prompts of this data set, and ``prefix``, the tokens that all of
            them begin with and that are computed once: a record array of int64, ``groups.prefix[3]``.
        saving: the part of all tokens that is not computed, if the prefix of each group is computed once.
        optimum: the same if each prefix is, at any depth: no order and no cache of prefixes saves more.
    """

    def __init__(
        self, made: tuple[_leat.Dataset, bytes, bytes, tuple[int, int, int], object], recipe: tuple[Any, ...]
    ) -> None:
        handle, order, groups, tokens, self._kept = made
        super().__init__(handle, recipe)
        self.prompts: Dataset = recipe[0]
        self.field: str = recipe[1]
        self.decode: np.ndarray[Any, np.dtype[np.uint32]] | None = recipe[2]
        self._order = np.frombuffer(order, np.uint32)
        self.groups: Any = np.frombuffer(groups, _GROUP).view(np.recarray)
        self.tokens = tokens
        every, grouped, least = tokens
        self.saving = 1 - grouped / every if every else 0.0
        self.optimum = 1 - least / every if every else 0.0

    def __repr__(self) -> str:
        return f"<leat.Prompts, {len(self)} in {len(self.groups)} groups, of {self.prompts!r}>"

    @property
    def order(self) -> Numbers:
        """The position in :attr:`prompts` of each prompt of this data set: int64."""
        return self._order.astype(np.int64)

    def restore(self, results: Any) -> Any:
        """Results in the order of the data set that was grouped.

        Args:
            results: one for each prompt, in the order of this data set: a list, an array, a tensor, a
                :class:`leat.Ragged`; or a dict with the ids of prompts (``batch.ids``) as keys, in any order.

        Returns:
            The same kind; for a dict, a list.

        Raises:
            ValueError: a result is missing, or there are too many.

        >>> prompts = leat.from_arrays(tokens=leat.Ragged(np.array([5, 5, 7, 9, 5, 5, 8], np.int32), [0, 3, 4, 7]))
        >>> g = leat.group_prompts(prompts, "tokens")
        >>> g.restore([int(sample["tokens"].sum()) for sample in g])
        [17, 9, 18]
        """
        place = np.empty(len(self), np.int64)
        place[self._order] = np.arange(len(self))
        if isinstance(results, Mapping):
            return self._restore_keyed(results, place)
        if not hasattr(results, "__len__"):
            results = list(results)
        if len(results) != len(self):
            raise ValueError(
                f"restore takes one result for each of the {len(self)} prompts, in the order of this data set, not "
                f"{len(results)}"
            )
        if isinstance(results, Ragged):
            return results._of_rows([results[int(i)] for i in place])
        if isinstance(results, np.ndarray):
            return results[place]
        if type(results).__module__.partition(".")[0] == "torch":
            import torch

            return results[torch.from_numpy(place).to(results.device)]
        return [results[i] for i in place]

    def _restore_keyed(self, results: Mapping[Any, Any], place: Numbers) -> list[Any]:
        for i in place:
            if i not in results:
                raise ValueError(
                    f"there is no result with the id {i}, which is the prompt at position {self._order[i]} of the data "
                    "set that was grouped"
                )
        if len(results) != len(self):
            odd = next(key for key in results if not (isinstance(key, (int, np.integer)) and 0 <= key < len(self)))
            raise ValueError(f"a result has the id {odd!r}: ids are places in the order, 0 to {len(self) - 1}")
        return [results[i] for i in place.tolist()]

    def simulate(self, tokens: int, block: int = 16) -> Saved:
        """What a cache of prefixes would save, with the prompts computed one after the other: the part of all tokens
        that it has when their prompt comes.

        Args:
            tokens: the cache holds the keys and values of so many, in whole blocks; the blocks unused for longest are
                evicted, of one prompt those at its end first.
            block: tokens of a block.

        >>> tokens = leat.Ragged(np.array([1, 2, 3, 7, 8, 9, 1, 2, 4], np.int32), [0, 3, 6, 9])
        >>> leat.group_prompts(leat.from_arrays(tokens=tokens), "tokens").simulate(tokens=3, block=1)
        Saved(as_they_came=0.0, sorted=0.2222222222222222, grouped=0.2222222222222222)
        """
        block = check.integer("block", block, 1, (1 << 30) + 1)
        found = _leat.prompts_simulate(self._kept, check.integer("tokens", tokens, 0), block)
        return Saved(*(n / self.tokens[0] if self.tokens[0] else 0.0 for n in found))

    def own_tokens(self) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """Of each prompt, in order, the tokens behind its group's prefix, and those that it is answered by."""
        lengths = self._lengths_of(self.field)
        first = np.ascontiguousarray(self.groups["first"])
        for begin in range(0, len(lengths), PART):  # other arrays of all prompts would double the memory
            part = lengths[begin : begin + PART]
            groups = np.searchsorted(first, np.arange(begin, begin + len(part)), "right") - 1
            part -= self.groups["prefix"][groups]
            if self.decode is not None:
                part += self.decode[self._order[begin : begin + PART]]
        return lengths.view(np.uint64)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_unpickle, (*self._recipe, self.fingerprint))


def _unpickle(*args: Any) -> Prompts:
    ds, field, decode, block, seed, fingerprint = args
    prompts = _made(ds, field, decode, block, seed, None)
    if prompts.fingerprint != fingerprint:
        raise ChangedError("the prompts have changed since they were pickled: group them again")
    return prompts


def _made(
    ds: Dataset,
    field: str,
    decode: np.ndarray[Any, np.dtype[np.uint32]] | None,
    block: int,
    seed: int,
    progress: Callable[[int, int], object] | None,
) -> Prompts:
    return Prompts(_leat.prompts(ds._part(), field, decode, block, seed, progress), (ds, field, decode, block, seed))


def _decode_of(ds: Dataset, given: Any) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """A number for each prompt."""
    if isinstance(given, str):
        of, array = f"column {given!r}", ds.column(given)
    else:
        of, array = "decode", np.asarray(given.detach().cpu() if type(given).__name__ == "Tensor" else given)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iuf"):
        raise TypeError(f"{of}: decode is one number for each prompt, not {array.dtype} of shape {array.shape}")
    if len(array) != len(ds):
        raise ValueError(f"{of} has {len(array)} numbers, the data set {len(ds)} prompts: one for each is needed")
    wrong = ~((array >= 0) & (array <= MOST_DECODE) & (array == np.floor(array)))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"{of}: the prompt at position {at} has {array[at]}, and decode is whole numbers of tokens from 0 to "
            "2^32 - 1"
        )
    return array.astype(np.uint32)


def group_prompts(
    ds: Dataset,
    field: str,
    decode: str | Sequence[int] | np.ndarray[Any, Any] | None = None,
    block: int = 1,
    seed: int = 0,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> Prompts:
    """Prompts in an order in which those that share a prefix stand together, so that an engine computes it once.

    Prompts are put into groups, each with a prefix that all of its prompts begin with. Of all ways to do so, this is
    the one that computes the fewest tokens, if each group's prefix is computed once: the best two levels, found
    exactly. A prompt that shares nothing worth it is in a group with the prefix 0. Groups are contiguous, in the order
    of a walk through the tree of all prefixes, depth first; a group's own prompts come before groups whose prefix goes
    on from its own. Prompts of a group stand by rising tokens (negative ones last, as unsigned numbers), equal ones by
    position. So a cache that keeps only the last few prompts finds nearly all that is shared, at any depth
    (docs/prompts.md).

    Tokens are read where they lie, in memory or in a mapped file. Beside them it takes 24 bytes a prompt.

    Args:
        ds: the prompts, a data set or a view of one.
        field: a field of lists of integers (``leat.field("int32", (None,))``), or of bytes.
        decode: about how many tokens each prompt will be answered by: the name of a column, or a number for each.
            Groups then stand by falling (sum of decode) / (tokens, the prefix counted once): those first that keep an
            engine decoding longest for what they cost to read.
        block: the tokens of a block of the engine's cache, such as 16: prefixes have whole blocks.
        seed: 0: branches of the tree stand by rising tokens. Other numbers draw the order of branches that do not even
            share their first token; groups and what they save stay the same.
        progress: called now and then with (done, total).

    Returns:
        :class:`Prompts`, a data set.

    Raises:
        KeyError: there is no such field or column.
        TypeError: the field has no lists of integers.
        ValueError: `block` is no positive number, `decode` has another length than `ds` or is no count of tokens.

    >>> tokens = leat.Ragged(np.array([1, 2, 3, 9, 1, 2, 4], np.int32), [0, 3, 4, 7])
    >>> g = leat.group_prompts(leat.from_arrays(tokens=tokens), "tokens")
    >>> g.order.tolist(), g.groups.prefix.tolist(), round(g.saving, 3)
    ([1, 0, 2], [0, 2], 0.286)
    """
    if not isinstance(ds, Dataset):
        raise no_dataset("group_prompts takes a data set of prompts", ds)
    ds._find(field)
    block = check.integer("block", block, 1, (1 << 30) + 1)
    numbers = None if decode is None else _decode_of(ds, decode)
    return _made(ds, field, numbers, block, check.seed(seed), progress)

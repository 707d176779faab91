"""Batches: the output of a loader.

A Batch is light. It refers to the memory that the library filled, and makes an array or tensor over it on request,
without a copy. A tensor keeps the memory of its own output only, so a label that is kept keeps no images.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import _leat, check
from ..data.ragged import Ragged
from ..data.schema import JSON, STR
from ..data.sparse import Sparse, unpacked_rows
from ..device.table import Rows
from ..errors import CorruptError, RangeError
from ..program import Stack
from ..stores.beside import Beside
from . import thd

if TYPE_CHECKING:
    from .context import Slices
    from .html import Meaning
    from .on_card import OnCard


class RowError(NamedTuple):
    """A row that the error policy touched, or that lacks its values of a store."""

    row: int  #: in the planned batch
    planned: int  #: sample id
    delivered: int | None  #: sample id of the substitute (of itself, if it lacks only what a store had), or None: the
    #: row was left out
    reason: str


class Form:
    """The common part of the batches of one loader: names of outputs and how each becomes a value."""

    def __init__(self, framework: str) -> None:
        self.framework = framework
        self.makers: dict[str, Callable[[_leat.Batch], Any]] = {}
        self.stacks: dict[str, Stack] = {}
        self.slices: Slices | None = None  # of context-parallel ranks
        self.beside: Beside | None = None  # stores whose values come with it
        self.card: OnCard | None = None  #: to which batches go
        self.looks = False  # the next batch can be peeked at
        self.gathered: dict[str, tuple[Rows, str]] = {}  #: rows by the numbers that an output has
        self.hidden = False  # this process needs no outputs
        self.sparse: dict[str, int] = {}  #: outputs of sparse rows, and their numbers of columns
        self.stored: dict[str, tuple[np.dtype[Any], int]] = {}  #: those of which a port gives the bytes: dtype, columns
        self.order: list[str] = []  #: the user's order of outputs, if the engine's differs
        self.meaning: Meaning | None = None
        self.length: int | None = None  #: of rows that hold sequences of several documents, padded behind the last, ...
        self.multiple = 1  #: ... and each to a multiple of this
        self.tokens: list[str] = []  #: outputs of the tokens of packed rows
        self.tensor: Callable[[Any], Any] | None = None
        self.small: Callable[[Any], Any] = np.asarray
        if framework == "torch":
            try:
                import torch
            except ImportError as e:
                raise ImportError("framework='torch' needs PyTorch: pip install torch, or say framework='numpy'") from e

            self.tensor = getattr(torch._C, "_from_dlpack", None) or torch.utils.dlpack.from_dlpack
            self.small = lambda memory: torch.from_numpy(np.asarray(memory))
            _join_pytree()

    def there(self, core: Any) -> Any:
        """The engine's batch where its tensors are to be."""
        here = self.card is None or self.hidden or self.by_host or isinstance(core, _leat.DeviceBatch)
        return core if self.card is None or here else self.card.take(core)

    @property
    def by_host(self) -> bool:
        """Whether outputs are made of the host's, and then moved: those of sequences and of context parallelism."""
        return self.length is not None or self.slices is not None

    def moved(self, value: Any) -> Any:
        card = self.card
        return value if card is None else _mapped(card.card.move, value)

    def check_rows(self, rows: int) -> None:
        """Refuses batches of several rows of a rank, if a row holds the sequences of a batch."""
        if self.length is not None and rows != 1:
            raise ValueError(
                f"a batch of batch_tokens is one row of each rank, of at most {self.length} tokens, not {rows} rows"
            )

    def become_numpy(self) -> None:
        """Before the first batch: values are arrays, whatever the framework was."""
        self.framework, self.tensor, self.small = "numpy", None, np.asarray

    def learn(self, core: Any) -> None:
        """Takes names and kinds from the first batch; all batches of a loader have the same."""
        makers: dict[str, Callable[[_leat.Batch], Any]] = {}
        if self.hidden:
            return
        delivered = [(i, found) for i, found in enumerate(core.outputs()) if found is not None]
        if self.order:
            place = {name: i for i, name in enumerate(self.order)}
            delivered.sort(key=lambda output: place.get(output[1][0], len(place)))
        for i, found in delivered:
            stack = self.stacks.get(found[0])
            if not found[4]:
                makers[found[0]] = self._maker(i, *found[:4])
                continue
            views = self._images(i, *found[:4])
            if stack is None or stack.how == "row":
                makers[found[0]] = partial(_made_of, views, _alone, stack)
            elif stack.how == "list":
                makers[found[0]] = views
            elif stack.instances is not None:
                makers[found[0]] = partial(_made_of, views, _padded_masks, stack)
            else:
                makers[found[0]] = partial(_made_of, views, _padded, stack)
                makers.setdefault(stack.mask, partial(_made_of, views, _padding, stack))
        for name, columns in self.sparse.items():
            if name not in makers:  # a reader of other outputs
                continue
            makers[name] = partial(_sparse, makers[name], makers.pop(f"{name}.columns"), columns)
        for name, (dtype, columns) in self.stored.items():
            makers[name] = partial(_unpacked, self, makers[name], dtype, columns)
        if self.length is not None:
            makers = thd.makers_of(makers, self.length, self.multiple, self.small)
        if self.slices is not None:
            makers = self.slices.wrap(makers, self.tokens)
        if self.card is not None and self.by_host:
            makers = {name: partial(_moved, self, make) for name, make in makers.items()}
            self.small = partial(_moved, self, self.small)
        elif self.card is not None and self.tensor is not None:
            self.small = self.tensor
        makers |= makers_of(self.gathered, makers)
        if self.beside is not None:
            makers.update(dict.fromkeys(self.beside.names, lambda core: None))  # never called: they are there
        self.makers = makers  # at once: another thread that iterates must not see a part of them

    def batch(self, core: Any) -> Batch:
        """A batch of this form, of the engine's or of one on a card."""
        made = Batch(core, self)
        if self.beside is not None and not self.hidden:
            values, broken = self.beside.read(core.host() if isinstance(core, _leat.DeviceBatch) else core)
            made._values.update({name: self.moved(value) for name, value in values.items()})
            if broken:
                made._values[".errors"] = sorted([*made.errors, *(_lacking(made, *each) for each in broken)])
        return made

    def _images(self, i: int, name: str, kind: int, dtype: str, _: bool) -> Callable[[_leat.Batch], Any]:
        """Images of open size: views of the memory that they share."""
        values = self._maker(i, name, kind, dtype, False)
        view = _view_array if self.tensor is None else _view_tensor
        return lambda core: [view(flat, *image) for flat in (values(core),) for image in core.images(i)]

    def _maker(self, i: int, name: str, kind: int, dtype: str, ragged: bool) -> Callable[[_leat.Batch], Any]:
        if kind == STR:
            return lambda core: core.text(i)
        if kind == JSON:
            return lambda core: [_parsed(text, name) for text in core.text(i)]
        tensor = self.tensor
        if tensor is None:
            if dtype == "bfloat16":
                return lambda core: _no_bfloat16(name)  # the batch's other outputs can be used
            if ragged:
                return lambda core: Ragged(np.asarray(core.memory(i)), np.asarray(core.memory_offsets(i)))
            return lambda core: np.asarray(core.memory(i))
        if ragged:
            return lambda core: Ragged(tensor(core.dlpack(i)), tensor(core.dlpack_offsets(i)))
        return lambda core: tensor(core.dlpack(i))


def _sparse(values: Any, columns: Any, n: int, core: _leat.Batch) -> Sparse:
    """Both outputs have the same offsets."""
    found = values(core)
    return Sparse(found.values, columns(core).values, found.offsets, n)


def _unpacked(form: Form, rows: Any, dtype: np.dtype[Any], n: int, core: _leat.Batch) -> Sparse:
    found = rows(core)
    values, offsets = (np.asarray(part if form.card is None else part.cpu()) for part in (found.values, found.offsets))
    made = unpacked_rows(values, offsets, dtype, n)
    return made if form.tensor is None else made._tensors()._map(lambda part: part.to(found.values.device))


def _moved(form: Form, make: Callable[[Any], Any], core: Any) -> Any:
    return form.moved(make(core))


def makers_of(gathered: dict[str, tuple[Rows, str]], numbers: dict[str, Any]) -> dict[str, Any]:
    """How rows become values, by those of the outputs that have their numbers."""
    return {name: partial(_gathered, name, rows, of, numbers[of]) for name, (rows, of) in gathered.items()}


def _gathered(name: str, rows: Rows, of: str, numbers: Callable[[_leat.Batch], Any], core: _leat.Batch) -> Any:
    found = numbers(core)
    try:
        return Ragged(rows[found.values], found.offsets) if isinstance(found, Ragged) else rows[found]
    except IndexError as e:
        raise RangeError(f"store {name!r}, by the numbers in {of!r}: {e}") from None


def _lacking(batch: Batch, row: int, sample: int, reason: str) -> RowError:
    """About a row of a batch that was handed out, without those that the error policy has left out before it."""
    for left_out in sorted(e.row for e in batch.errors if e.delivered is None):
        row += left_out <= row
    return RowError(row, sample, sample, reason)


def _view_tensor(values: Any, begin: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    return values.as_strided(shape, strides, begin)


def _view_array(values: Any, begin: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    return np.lib.stride_tricks.as_strided(values[begin:], shape, [s * values.itemsize for s in strides])


def _made_of(views: Any, make: Any, stack: Stack | None, core: _leat.Batch) -> Any:
    return make(views(core), stack)


def _alone(images: list[Any], stack: Stack | None) -> Any:
    """For a batch of one row, which does not have to say how images are stacked."""
    return images[0][None] if stack is None or stack.instances else _ragged(images[0], images)


def _ragged(values: Any, rows: list[Any]) -> Ragged:
    ends = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
    if isinstance(values, np.ndarray):
        return Ragged(values, ends)
    import torch

    return Ragged(values, torch.from_numpy(ends).to(values.device))


def _padded_masks(rows: list[Any], stack: Stack) -> Any:
    """Masks of instances, zero beside and below each."""
    _, height, width = _bounds(rows, None)
    made = _zeros(rows[0], (sum(len(row) for row in rows), height, width))
    begin = 0
    for row in rows:
        made[begin : begin + len(row), : row.shape[1], : row.shape[2]] = row
        begin += len(row)
    return made.reshape(len(rows), stack.instances, height, width) if stack.instances else _ragged(made, rows)


def _bounds(images: list[Any], skip: int | None) -> tuple[int, ...]:
    return tuple(max(sides) for d, sides in enumerate(zip(*(i.shape for i in images), strict=True)) if d != skip)


def _zeros(like: Any, shape: tuple[int, ...]) -> Any:
    return np.zeros(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_zeros(shape)


def _padded(images: list[Any], stack: Stack) -> Any:
    """One tensor of the height and width of the largest, zero beside and below each image."""
    first, sides = images[0], _bounds(images, None)
    stride = first.strides[0] // first.itemsize if isinstance(first, np.ndarray) else first.stride(0)
    if stack.channels == 0 and stride == 1 and sides[0] > 1:  # channels_last
        last = _zeros(first, (len(images), *sides[1:], sides[0]))
        made = last.swapaxes(2, 3).swapaxes(1, 2)
    else:
        made = _zeros(first, (len(images), *sides))
    for i, image in enumerate(images):
        made[(i, *(slice(n) for n in image.shape))] = image
    return made


def _padding(images: list[Any], stack: Stack) -> Any:
    """True where there is no image."""
    first = images[0]
    unmarked = _zeros(first, (len(images), *_bounds(images, stack.channels)))
    made = unmarked == unmarked
    for i, image in enumerate(images):
        height, width = (n for d, n in enumerate(image.shape) if d != stack.channels)
        made[i, :height, :width] = False
    return made


def _parsed(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as e:  # a file that was forged: the writer checks
        raise CorruptError(
            f"a value of field {name!r} is not JSON ({e}): the file was not made by leat, make it again"
        ) from e


def _no_bfloat16(name: str) -> Any:
    raise TypeError(
        f"output {name!r} is bfloat16, which numpy lacks: open the Loader with framework='torch', or end its chain in "
        "ToDtype"
    )


class Batch(Mapping[str, Any]):
    """One batch: a mapping from the names of outputs to tensors (or arrays, with ``framework="numpy"``).

    A dense output is a tensor whose first dimension is the row; one of variable length is a :class:`leat.Ragged`; text
    and JSON are lists. Tensors are made without a copy, are yours to write into, and stay valid as long as you keep
    them.

    >>> batch = next(iter(leat.Loader(leat.open(path), batch_size=4)))
    >>> batch.size, list(batch), batch["x"].shape, batch.ids.tolist()
    (4, ['x', 'label'], torch.Size([4, 3]), [0, 1, 2, 3])
    """

    __slots__ = ("__weakref__", "_core", "_form", "_values")

    def __new__(cls, core: Any, *of: Any) -> Any:
        """Frameworks make a mapping again as ``type(batch)({name: value})``: that is a dict, which has no ids."""
        return object.__new__(cls) if of or not isinstance(core, Mapping) else dict(core)

    def __init__(self, core: _leat.Batch | None, form: Form, values: dict[str, Any] | None = None) -> None:
        self._core = core
        self._form = form
        self._values: dict[str, Any] = {} if values is None else values

    def __getitem__(self, name: str) -> Any:
        values = self._values
        if name in values:
            return values[name]
        make = self._form.makers.get(name)
        if make is None:
            how = ' by name; by number, a Loader with yields="tuple" gives them' if isinstance(name, int) else ""
            raise KeyError(f"no output {name!r}: this batch has {', '.join(self._form.makers)}{how}")
        value = values[name] = make(self._core)  # type: ignore[arg-type]  # None: its makers need none
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._form.makers)

    def __len__(self) -> int:
        return len(self._form.makers)

    def __contains__(self, name: object) -> bool:
        return name in self._form.makers

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<leat.Batch of {self.size} rows ({', '.join(self)}), epoch {self.epoch}, step {self.step}>"

    def _repr_html_(self) -> str:
        """Its display in a notebook: the outputs, and the first rows as pictures with their boxes."""
        from . import html

        shown = self.to("cpu") if self._form.card is not None else self
        return html.batch(shown, self._form.meaning or html.Meaning())

    def __reduce__(self) -> tuple[Any, ...]:
        made = self._map(_picklable)  # every value; pickling and deep copies copy the memory
        return (_rebuild, (self._form.framework, list(self), made._values))

    def _small(self, name: str, make: Callable[[_leat.Batch], Any]) -> Any:
        """Ids and the like, which are made once and cached under a name that no output can have."""
        key = "." + name
        if key not in self._values:
            assert self._core is not None
            self._values[key] = make(self._core)
        return self._values[key]

    @property
    def ids(self) -> Any:
        """Sample ids: int64, shape (size,)."""
        return self._small("ids", lambda core: self._form.small(core.ids()))

    @property
    def domains(self) -> Any:
        """The source that each row is of, as its number in the names of the mixture: int32, shape (size,). Zeros if the
        loader reads one data set.
        """
        return self._small("domains", lambda core: self._form.small(core.domains()))

    @property
    def row_keys(self) -> Any:
        """The random key of each row, from which its augmentations are drawn: uint64, shape (size,)."""
        return self._small("row_keys", lambda core: self._form.small(core.row_keys()))

    @property
    def valid(self) -> Any:
        """Whether a row is real, not padding: bool, shape (size,)."""
        return self._small("valid", lambda core: self._form.small(core.valid()))

    @property
    def errors(self) -> list[RowError]:
        """Rows that ``on_error="skip"`` or ``"substitute"`` touched; and those without their values of a store, because
        these were broken.
        """
        made = self._small(
            "errors",
            lambda core: [
                RowError(row, planned, None if delivered < 0 else delivered, reason)
                for row, planned, delivered, reason in core.errors()
            ],
        )
        return list(made)

    @property
    def epoch(self) -> int:
        """The epoch of the batch."""
        return int(self._small("epoch", lambda core: core.epoch()))

    @property
    def step(self) -> int:
        """Its number in the epoch."""
        return int(self._small("step", lambda core: core.step()))

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self._small("size", lambda core: core.rows()))

    def tuple(self, *names: str) -> tuple[Any, ...]:
        """The outputs of these names, or all, as a tuple.

        >>> x, y = next(iter(leat.Loader(leat.open(path), batch_size=4))).tuple("x", "label")
        """
        return tuple([self[name] for name in (names or self._form.makers)])

    def split(self, n: int) -> list[Batch]:
        """The batch as batches of `n` rows, in order; the last one has the rows that are left.

        Borders lie at multiples of `n` rows of this batch, whatever else there is: threads, devices, other ranks. So
        statistics of parts (ghost batch normalisation), accumulated gradients and micro-batches are the same in every
        run. Nothing is copied: tensors are views of this batch's, and one that is kept keeps the memory of its own
        output. Rows that were left out (``on_error="skip"``) are in no part; ``errors`` of a part are those of its
        rows.

        Args:
            n: rows of a part, at least 1.

        Raises:
            ValueError: `n` is below 1.
            leat.UnsupportedError: by an output of a part that is not one value per row, such as ``cu_seqlens``.

        >>> batch = next(iter(leat.Loader(leat.open(path), batch_size=80)))
        >>> [part.size for part in batch.split(32)], batch.split(32)[1].ids[0].item()
        ([32, 32, 16], 32)
        >>> batch.split(32)[2]["x"].data_ptr() == batch["x"][64:].data_ptr()
        True
        """
        from .parts import parts_of

        return list(parts_of(self, check.integer("n", n, 1)))

    def _map(self, function: Callable[[Any], Any], but: Collection[str] = ()) -> Batch:
        """Another batch: `function` of each tensor, without the outputs of `but`."""
        values: dict[str, Any] = {}
        for name in set(self) - set(but) if but else self:
            value = self[name]
            values[name] = _mapped(function, value)
        for name in ("ids", "domains", "row_keys", "valid"):
            values["." + name] = function(getattr(self, name))
        for name in ("errors", "epoch", "step", "size"):
            values["." + name] = getattr(self, name)
        return Batch(None, self._form, values)

    def _torch(self, what: str) -> None:
        if self._form.framework != "torch":
            raise TypeError(f"{what} works on tensors: open the Loader with framework='torch'")

    def to(self, device: Any, non_blocking: bool = True, *, out: Mapping[str, Any] | None = None) -> Batch:
        """The batch on a device: every tensor moved by ``Tensor.to``; lists stay. Needs ``framework="torch"``.

        Args:
            device: of PyTorch.
            non_blocking: copies from pinned memory to a card do not wait. Those to the host do: its memory can be read
                at once.
            out: ``{name: tensor}``: outputs that are written into tensors of yours, of their shape and dtype, such as
                those that a CUDA graph was captured with. The batch has these tensors then.

        Raises:
            ValueError: a tensor of `out` has another shape, dtype or device. KeyError: there is no such output.
        """
        self._torch("to()")
        import torch

        device = torch.device(device)  # a dtype would change ids and offsets as well
        non_blocking &= device.type != "cpu"
        for name, tensor in (out or {}).items():
            _check_room(name, self[name], tensor, device)
        made = self._map(lambda t: t.to(device, non_blocking=non_blocking), set(out or ()))
        for name, tensor in (out or {}).items():
            made._values[name] = tensor.copy_(self[name], non_blocking=non_blocking)
        return made

    def pin_memory(self) -> Batch:
        """A copy in PyTorch's pinned memory, from which copies to a GPU can run asynchronously."""
        self._torch("pin_memory()")
        return self._map(lambda t: t.pin_memory() if t.device.type == "cpu" else t)

    def clone(self) -> Batch:
        """A copy, which does not count against ``max_held_bytes``."""
        return self._map(lambda t: t.copy() if isinstance(t, np.ndarray) else t.clone())

    def numpy(self) -> Batch:
        """The batch with NumPy arrays in the place of tensors, over the same memory. Lists stay.

        Raises:
            TypeError: an output is bfloat16, which NumPy lacks, or lies on a device: ``batch.to("cpu")`` comes first.

        >>> batch = next(iter(leat.Loader(leat.open(path), batch_size=4))).numpy()
        >>> type(batch["x"]), batch.ids.dtype
        (<class 'numpy.ndarray'>, dtype('int64'))
        """
        if self._form.framework == "numpy":
            return self
        form = Form("numpy")
        form.makers = dict.fromkeys(self, lambda core: None)  # never called: all values are there
        form.meaning = self._form.meaning
        return Batch(None, form, self._map(lambda t: t.numpy())._values)


_JOINING = threading.Lock()


def _join_pytree() -> None:
    """Makes a batch a node of PyTorch's trees: ``tree_map`` and ``torch.func`` go into it, and make dicts of it."""
    from torch.utils import _pytree

    def named(batch: Batch) -> tuple[list[tuple[Any, Any]], list[str]]:
        return [(_pytree.MappingKey(name), value) for name, value in batch.items()], list(batch)

    with _JOINING:
        if Batch not in _pytree.SUPPORTED_NODES:
            _pytree.register_pytree_node(
                Batch,
                lambda batch: (list(batch.values()), list(batch)),
                lambda values, names: dict(zip(names, values, strict=True)),
                flatten_with_keys_fn=named,
            )


def _check_room(name: str, value: Any, tensor: Any, device: Any) -> None:
    if not hasattr(value, "copy_"):
        raise ValueError(f"output {name!r} is {type(value).__name__}, and no tensor to write into another one")
    if not hasattr(tensor, "copy_"):
        raise ValueError(f"out[{name!r}] is {type(tensor).__name__}, and no tensor")
    if tensor.device.type != device.type or device.index not in (None, tensor.device.index):
        raise ValueError(f"out[{name!r}] is on {tensor.device}, and the batch goes to {device}")
    if value.shape != tensor.shape or value.dtype != tensor.dtype:
        raise ValueError(
            f"out[{name!r}] is {tensor.dtype} of shape {tuple(tensor.shape)}, and the output {value.dtype} of shape "
            f"{tuple(value.shape)}; drop_last=True makes batches of one size"
        )


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, (Ragged, Sparse)):
        return value._map(function)
    if isinstance(value, int):  # the length of the longest sequence
        return value
    if isinstance(value, list):  # of texts, or of images
        return [function(v) if hasattr(v, "dtype") else v for v in value]
    return function(value)


class Unsigned(NamedTuple):
    """A tensor of a dtype that PyTorch does not pickle, as bytes."""

    bytes: Any
    dtype: str


def _picklable(tensor: Any) -> Any:
    if isinstance(tensor, np.ndarray):
        return tensor
    import torch

    if tensor.untyped_storage().nbytes() != tensor.nbytes:  # an image of several: its memory is pickled alone
        tensor = tensor.clone()
    if tensor.dtype not in (torch.uint16, torch.uint32, torch.uint64):
        return tensor
    return Unsigned(tensor.unsqueeze(-1).view(torch.uint8), str(tensor.dtype).removeprefix("torch."))


def _unpickled(value: Any) -> Any:
    if not isinstance(value, Unsigned):
        return value
    import torch

    return value.bytes.view(getattr(torch, value.dtype)).squeeze(-1)


def _rebuild(framework: str, names: list[str], values: dict[str, Any]) -> Batch:
    """A batch that was pickled or copied."""
    form = Form(framework)
    form.makers = dict.fromkeys(names, lambda core: None)  # never called: all values are there
    return Batch(None, form, {name: _mapped(_unpickled, value) for name, value in values.items()})

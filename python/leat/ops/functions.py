"""Functions of the user: compiled, or in Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..data.schema import ENCODED, Field, field
from ..functions import native
from .base import Operator, _plain, qualified_name

__all__ = ["Map", "MapBatch", "Native"]


class Native(Operator):
    """A compiled function of yours, on the library's own threads, without the interpreter.

    Args:
        function: ``"path/to/lib.so:symbol"``, a C function of the form ``leat_native_fn`` in the header ``leat/leat.h``
            (in :func:`leat.get_include`); a ``numba.cfunc``; a ctypes function; or an address.
        args: for the C function: a number or a list of numbers, a text, or any other value that JSON can hold.
        returns: the type of the result, ``leat.field(dtype, shape)``, with ``layout="HWC"`` if it is an image. None:
            that of the input.
        call: ``"structure"`` or ``"flat"``: the way the function is called, if it does not say so itself. A function of
            a library is called with the structure, an address always needs it, and one of numba or ctypes says it by
            its arguments.

    The flat form, for numba, is ``int32(in, out, int64 n_in, int64 n_out, uint64 key)``: pointers to the elements of
    the input and of the result, how many these are, and the row's random key. If it returns anything but 0, the sample
    is broken. The input is a value of fixed shape, an image of fixed size (as HWC), or any stored value if `returns` is
    given. ``docs/operators.md`` says the rest, and the rules for both forms.

    A program with a function of a library can be saved. Reading it back loads nothing without ``allow_native=True``.

    Raises:
        TypeError: not a compiled function, or its arguments are none of the two forms.
        ValueError: the text is not ``"lib.so:symbol"``, or `args` has no JSON form.

    >>> leat.ops.Native("./libimage.so:blur", args=[1.5], returns=leat.field("float32", (8, 8, 3), layout="HWC"))
    Native(function='./libimage.so:blur', args=[1.5], returns=field('float32', (8, 8, 3), layout='HWC'), call=None)
    """

    def __init__(
        self, function: Any, args: Any = None, returns: Any = None, *, call: str | None = None, name: str | None = None
    ) -> None:
        if call is not None and call not in native.FORMS:
            raise ValueError(f"call is 'structure', 'flat' or None, not {call!r}")
        if isinstance(function, str):
            native.split(function)
        elif native.find(function, call).flat and args is not None:
            raise ValueError("args goes with a C function that takes the structure; the flat form has no place for it")
        if call == "flat" and args is not None:
            raise ValueError("args goes with call='structure'; the flat form has no place for it")
        args = args.tolist() if hasattr(args, "tolist") else args
        try:
            args = json.loads(json.dumps(args, allow_nan=False))
        except TypeError as e:
            raise TypeError(f"args is what JSON can hold, and {e}") from None
        if isinstance(returns, Mapping):  # as to_json wrote it
            returns = field(returns["dtype"], tuple(returns.get("shape", ())), layout=returns.get("layout"))
        if returns is not None and not (
            isinstance(returns, Field) and returns.kind == "array" and None not in returns.shape
        ):
            raise TypeError(f"returns is leat.field(dtype, shape) of fixed shape, or None, not {returns!r:.80}")
        self._set(name, function=function, args=args, returns=returns, call=call)

    def __hash__(self) -> int:
        return hash((self.function, json.dumps(self.args), self.returns, self.call, self.name))

    def to_json(self) -> dict[str, Any]:
        """As of every operator.

        Raises:
            ValueError: the function is not of a library: it has no name that another process could find it by.
        """
        if not isinstance(self.function, str):
            raise ValueError(
                f"{self!r} has no JSON form and cannot be pickled: only a function named 'lib.so:symbol' is found "
                "again in another process"
            )
        return super().to_json()

    def __getstate__(self) -> dict[str, Any]:
        self.to_json()  # which refuses functions that another process would not find
        return self.__dict__

    def _compiled(self, index: int, found: native.Function) -> dict[str, Any]:
        """As the library takes it: with the index of the function in its table."""
        args = self.args
        numbers = [args] if isinstance(args, (int, float)) and not isinstance(args, bool) else args
        plain = isinstance(numbers, list) and all(
            isinstance(v, (int, float)) and not isinstance(v, bool) for v in numbers
        )
        text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, separators=(",", ":"))
        kept = {"source": found.source, "text": "" if args is None else text, "numbers": numbers if plain else None}
        kept |= {"returns": _plain(self.returns), "takes": found.takes, "gives": found.gives, "name": self.name}
        return {"type": "Native", "function": index} | {k: v for k, v in kept.items() if v is not None}


class Map(Operator):
    """A Python function of one value, in a worker process.

    Args:
        function: ``fn(x)``, or ``fn(x, rng)`` with the row's ``numpy.random.Generator``. `x` is the value as it stands
            in the chain, and is the function's own to write into: a tensor, or an array with ``framework="numpy"`` (a
            decoded photo as HWC, a stored array as it is stored); ``bytes`` of an encoded photo; ``str``; the value of
            JSON text. It returns a tensor, an array, a number, ``str`` or ``bytes``.
        returns: the type of the result, ``leat.field(dtype, shape)``, with ``layout="HWC"`` if it is an image; its
            first dimension may be None: results differ in length, and the batch has a :class:`leat.Ragged`. None: the
            function is called once, on the first sample, when the loader opens, and the type of that result is taken;
            for images of open size a second time, on a smaller one.

    In the chain of a tuple of fields, or with ``leat.Out(stack=)`` or ``geometry=``, the function sees the image, and
    keeps its height and width: targets of the row go by them. `returns` may be a dtype alone there.

    Functions and lambdas of ``__main__`` travel to the workers by value. If the function raises, the sample is broken.
    ``docs/operators.md`` says the rest.

    >>> def invert(x):
    ...     return 255 - x
    >>> chain = [leat.ops.Decode(), leat.ops.CenterCrop(32), leat.ops.Map(invert), leat.ops.ToDtype("float32")]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    def __init__(self, function: Any, returns: Any = None, *, name: str | None = None) -> None:
        if not callable(function):
            raise TypeError(f"{type(self).__name__} takes a function, not {function!r:.60}")
        if isinstance(returns, str):
            returns = field(returns)
        if returns is not None and not (isinstance(returns, Field) and returns.kind not in ENCODED):
            raise TypeError(f"returns is leat.field(dtype, shape) or None, not {returns!r:.80}")
        self._set(name, function=function, returns=returns)

    @property
    def label(self) -> str:
        """Its name in messages and statistics: ``Map(augment)``."""
        return f"{type(self).__name__}({qualified_name(self.function, False)})"

    def __hash__(self) -> int:
        return hash((type(self).__name__, id(self.function), self.returns, self.name))

    def to_json(self) -> dict[str, Any]:
        """A Python function has no JSON form.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"{self.label} has no JSON form: a program with Python functions is code, and is kept as such")

    def described(self) -> dict[str, Any]:
        """As ranks compare it: by the function's name."""
        return {
            "type": type(self).__name__,
            "function": qualified_name(self.function, True),
            "returns": repr(self.returns),
            "name": self.name,
        }


class MapBatch(Map):
    """A Python function of all rows of a batch, in a worker process. It is called when the rows are made, before the
    batch is delivered.

    Args:
        function: ``fn(x)``, or ``fn(x, rng)`` with the generator of the batch's first row. `x` is a tensor or array of
            shape ``(rows, ...)``; a list if values differ in length. It returns as many rows.
        returns: the type of a row of the result, as of :class:`leat.ops.Map`.

    It sees the rows of this rank's batch, so its result depends on the batch size and the number of ranks. If it
    raises, the batch fails, whatever ``on_error`` says.

    >>> chain = [leat.ops.ToDtype("float32"), leat.ops.MapBatch(lambda x: x - x.mean())]
    >>> leat.Loader(photos, 2, outputs={"label": chain}).batch_at(0, 0)["label"]
    tensor([-0.5000,  0.5000])
    """

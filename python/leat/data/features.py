"""Column types that `datasets` of Hugging Face knows: which are photos, and the names of classes.

It stands in a data set's `features`, and as JSON in the metadata of the schema of its files, under the key
``huggingface``, as ``{"info": {"features": {"image": {"_type": "Image"}, "label": {"names": [...], "_type":
"ClassLabel"}}}}``. An entry of another form is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import InvalidError, UnsupportedError
from .arrow_values import valid_name

_LISTS = ("List", "LargeList", "Sequence")
_DEPTH = 64


class Features:
    """`images`: the names of the fields that are photos; `modes`: of those of them that Pillow is to convert, to which
    mode; `labels`: the names of the classes of fields."""

    def __init__(self, features: Any = None) -> None:
        self.images: set[str] = set()
        self.modes: dict[str, str] = {}
        self.labels: dict[str, list[str]] = {}
        if isinstance(features, Mapping) and "_type" not in features:
            self._members(features, "", False, 0)

    def _members(self, features: Mapping[Any, Any], prefix: str, listed: bool, depth: int) -> None:
        for name, one in features.items():
            self._take(one, prefix + valid_name(str(name)), listed, depth + 1)

    def _take(self, feature: Any, name: str, listed: bool, depth: int) -> None:
        if isinstance(feature, list) and len(feature) == 1:  # an older way to write a list
            feature = {"_type": "List", "feature": feature[0]}
        if not isinstance(feature, Mapping) or depth > _DEPTH:
            return
        kind = feature.get("_type")
        if not isinstance(kind, str):
            self._members(feature, f"{name}.", listed, depth)
        elif kind == "Image" and not listed:
            self.images.add(name)
            if isinstance(mode := feature.get("mode"), str):
                self.modes[name] = mode
        elif kind == "ClassLabel" and _are_names(feature.get("names")):
            self.labels[name] = list(feature["names"])
        elif kind in _LISTS:
            self._take(feature.get("feature"), name, True, depth + 1)

    def refuse_mode(self, name: str, wanted: Mapping[Any, Any]) -> None:
        """Refuses photos that `datasets` would convert. `wanted`: all requested fields, with their kinds."""
        if (mode := self.modes.get(name)) is None:
            return
        decode = {"RGB": "RGB", "L": "GRAY", "RGBA": "RGBA"}.get(mode)
        convert = f"convert it by leat.ops.Decode({decode!r})" if decode else "convert it by leat.ops.Map(function)"
        fields = {str(n): "image" if n in self.modes and k is None else k for n, k in wanted.items()}
        raise UnsupportedError(
            f"column {name!r} is an Image(mode={mode!r}) of datasets, and leat reads photos as they are stored: take "
            f"it so, fields={fields}, and {convert} in the outputs of leat.Loader; or use "
            "leat.DataLoader(dataset, ...), which calls dataset[i]"
        )

    def classes(self, fields: Mapping[str, Any]) -> list[str]:
        """The names of the classes of the field ``label``; if it has none, those of the others that have some, if these
        agree."""
        if "label" in fields:
            return self.labels.get("label", [])
        found = [names for name, names in self.labels.items() if name in fields]
        return found[0] if found and all(names == found[0] for names in found) else []


def _are_names(names: Any) -> bool:
    if not isinstance(names, list) or not names or not all(isinstance(n, str) and "\0" not in n for n in names):
        return False
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return False
    return True


def of_metadata(metadata: Mapping[bytes, bytes] | None) -> Features:
    """From the metadata of a schema."""
    try:
        info = json.loads((metadata or {}).get(b"huggingface", b"{}"))["info"]
        return Features(info["features"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return Features()


def of_dataset(obj: Any) -> Features:
    """From a ``datasets.Dataset``."""
    features: Any = getattr(obj, "features", None)
    return Features(features.to_dict() if hasattr(features, "to_dict") else None)


def refuse_format(obj: Any, fields: Any) -> None:
    """Refuses a data set whose ``dataset[i]`` differs from the stored value."""
    for name in ("__getitem__", "__getitems__", "_getitem"):
        of = next((c for c in type(obj).__mro__ if name in vars(c)), type(obj))
        if of is not object and of.__module__.partition(".")[0] != "datasets":
            raise UnsupportedError(
                f"{of.__name__} has a {name} of its own, which from_arrow would leave out: it reads what is stored. "
                "Use leat.DataLoader(dataset, ...), which calls dataset[i]; or store what that gives, dataset.map(...)"
            )
    if getattr(obj, "_format_type", None) == "custom":
        raise UnsupportedError(
            "this datasets.Dataset has a transform (with_transform, set_transform), which from_arrow would leave out: "
            "it reads what is stored. Use leat.DataLoader(dataset, ...), which calls dataset[i]; or store what the "
            "transform gives, dataset.map(...); or take dataset.with_format(None) and give the function to "
            "leat.ops.Map in the outputs of leat.Loader"
        )
    if "dtype" in (getattr(obj, "_format_kwargs", None) or {}):
        raise UnsupportedError(
            "this datasets.Dataset has a format with dtype=, which from_arrow would leave out: it reads what is "
            "stored. Take dataset.with_format(None), and leat.ops.ToDtype in the outputs of leat.Loader"
        )
    chosen, there = getattr(obj, "_format_columns", None), list(obj.column_names)
    if fields is not None or chosen is None or getattr(obj, "_output_all_columns", False):
        return
    if left_out := [name for name in there if name not in chosen]:
        names = [valid_name(name) for name in there if name in chosen]
        raise InvalidError(
            f"this datasets.Dataset has with_format(columns=[...]), which leaves out {', '.join(map(repr, left_out))}, "
            f"and from_arrow takes all columns: say which, from_arrow(dataset, fields={names}), or take "
            "dataset.with_format(None)"
        )

"""Tokenizers of two libraries behind one face: a batch of texts to arrays of ids, and back.

A tokenizer is known by the hash of its behaviour, not of its file: for a ``tokenizer.json`` the library's form of it,
without ``truncation`` and ``padding``, which are never applied here, and without members that are null, false or empty;
for a tiktoken file its ranks, pattern and special tokens.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import json
import os
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..errors import FormatError, InvalidError
from .skipped import plain

Ids = np.ndarray[Any, np.dtype[Any]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Spans = Sequence[tuple[int, int]]


class Tokenizer(ABC):
    """The interface of a tokenizer; made by :func:`load`."""

    kind = ""

    def __init__(self, file: str, digest: str, vocab_size: int, backend: str) -> None:
        self.file, self.hash, self.vocab_size, self.backend = file, digest, vocab_size, backend
        #: of the ids: the smaller one of uint16 and uint32 that holds them
        self.dtype = "uint16" if vocab_size <= 1 << 16 else "uint32"
        #: beside the file, of a tiktoken file: pattern, special_tokens
        self.given: dict[str, Any] = {}

    @property
    def about(self) -> dict[str, Any]:
        """As it stands in the metadata of a pack."""
        named = {"hash": self.hash, "file": plain(self.file), "vocab_size": self.vocab_size, "kind": self.kind}
        return {**named, **self.given}

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of each text, as arrays of :attr:`dtype`."""

    @abstractmethod
    def encode_learned(self, texts: Sequence[str], spans: Sequence[Spans]) -> list[tuple[Ids, Mask]]:
        """The ids of each text, and which of them have a character in its spans (begin, end), which are in order."""

    @abstractmethod
    def decode(self, ids: Ids) -> str:
        """The text of ids that are tokens (:meth:`checked`), special ones included."""

    #: bool, for each id below vocab_size: whether it is a token
    known: Mask

    def checked(self, ids: Ids, where: str | Callable[[], str], every: bool = False) -> Ids:
        """`ids`, if each is below :attr:`vocab_size`; with `every`, if each is a token. `where`: for the error."""
        if not len(ids):
            return ids
        if int(ids.max()) >= self.vocab_size or (ids.dtype.kind != "u" and int(ids.min()) < 0):
            at = int(np.argmax((ids >= self.vocab_size) | (ids < 0)))
            where = where if isinstance(where, str) else where()
            raise InvalidError(
                f"{where}: token {at} is {int(ids[at])}, beyond the vocabulary of {self.file}, which ends at "
                f"{self.vocab_size - 1}"
            )
        if every and not self.known[ids].all():
            at = int(np.argmin(self.known[ids]))
            where = where if isinstance(where, str) else where()
            raise InvalidError(f"{where}: token {at} is {int(ids[at])}, which {self.file} does not have")
        return ids


class _HuggingFace(Tokenizer):
    kind = "huggingface"

    def __init__(self, text: str, file: str, add_special: bool, parse_special: bool) -> None:
        tokenizers = needed("tokenizers")
        try:
            core = tokenizers.Tokenizer.from_str(text)
        except Exception as e:
            raise FormatError(f"{file} is no tokenizer.json that tokenizers {tokenizers.__version__} reads: {e}") from e
        core.no_truncation()
        core.no_padding()
        core.encode_special_tokens = not parse_special
        parsed = json.loads(core.to_str())  # the same for one tokenizer, whoever wrote the file
        vocab = core.get_vocab(with_added_tokens=True)
        size = 1 + max(vocab.values(), default=-1)
        super().__init__(file, _hash_json(_said(parsed)), size, f"tokenizers {tokenizers.__version__}")
        self._add_special = add_special
        self.core = core
        self.known = _known_ids(vocab.values(), size)

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        found = self.core.encode_batch_fast(texts, add_special_tokens=self._add_special)
        return [_array(one.ids, self.dtype) for one in found]

    def encode_learned(self, texts: Sequence[str], spans: Sequence[Spans]) -> list[tuple[Ids, Mask]]:
        found = self.core.encode_batch(texts, add_special_tokens=False)
        return [
            (_array(one.ids, self.dtype), _in_spans(np.array(one.offsets, np.int64).reshape(-1, 2), parts))
            for one, parts in zip(found, spans, strict=True)
        ]

    def decode(self, ids: Ids) -> str:
        text: str = self.core.decode(ids.tolist(), skip_special_tokens=False)
        return text


class _Tiktoken(Tokenizer):
    kind = "tiktoken"

    def __init__(self, encoding: Any, file: str, parse_special: bool) -> None:
        tiktoken = needed("tiktoken")
        ranks, special = encoding._mergeable_ranks, encoding._special_tokens
        whole = hashlib.sha256()
        for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
            whole.update(b"%d %d:%b" % (rank, len(token), token))
        whole.update(_hash_json([encoding._pat_str, special]).encode())
        super().__init__(file, whole.hexdigest()[:32], encoding.max_token_value + 1, f"tiktoken {tiktoken.__version__}")
        self.core = encoding
        self.known = _known_ids([*ranks.values(), *special.values()], self.vocab_size)
        self._special: Any = "all" if parse_special else set()
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0  # whose threads these are: a process that was forked has none

    def _one(self, text: str) -> Ids:
        found = self.core.encode_to_numpy(text, allowed_special=self._special, disallowed_special=())
        return np.asarray(found).astype(self.dtype)

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        if self._pool is None or self._process != os.getpid():
            cores = len(os.sched_getaffinity(0))
            self._process = os.getpid()
            self._pool = ThreadPoolExecutor(cores, thread_name_prefix="leat-tiktoken")
        return list(self._pool.map(self._one, texts, chunksize=max(1, len(texts) // 64)))

    @functools.cached_property
    def _lengths(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Bytes of each token."""
        lengths = np.zeros(self.vocab_size, np.int64)
        for token, rank in self.core._mergeable_ranks.items():
            lengths[rank] = len(token)
        for text, token in self.core._special_tokens.items():
            lengths[token] = len(text.encode())
        return lengths

    def encode_learned(self, texts: Sequence[str], spans: Sequence[Spans]) -> list[tuple[Ids, Mask]]:
        made = []
        for ids, text, parts in zip(self.encode(texts), texts, spans, strict=True):
            ends = np.cumsum(self._lengths[ids])
            edges = [len(text[:at].encode()) for part in parts for at in part]
            offsets = np.stack([ends - self._lengths[ids], ends], 1)
            made.append((ids, _in_spans(offsets, list(zip(edges[::2], edges[1::2], strict=True)))))
        return made

    def decode(self, ids: Ids) -> str:
        text: str = self.core.decode(ids.tolist(), errors="replace")
        return text


def needed(name: str, what: str = "tokenising") -> Any:
    """A package that leat does not depend on."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise ImportError(f"{what} needs the package {name}, which is not installed: pip install {name} ({e})") from e


def _array(ids: list[int], dtype: str) -> Ids:
    try:
        return np.array(ids, dtype)
    except OverflowError:  # beyond the vocabulary: checked() says so
        return np.array(ids, np.int64)


def _in_spans(offsets: np.ndarray[Any, np.dtype[np.int64]], spans: Spans) -> Mask:
    """The tokens [begin, end) that meet a span; for one without characters, if it stands within or before one."""
    mask = np.zeros(len(offsets), np.bool_)
    begins, ends = offsets[:, 0], offsets[:, 1]
    for begin, end in spans:
        mask |= (begins < end) & (np.maximum(ends, begins + 1) > begin)
    return mask


def _known_ids(ids: Iterable[int], size: int) -> Mask:
    known = np.zeros(size, np.bool_)
    known[list(ids)] = True
    return known


def _said(value: Any) -> Any:
    """The contents of a tokenizer.json, without members that say nothing: a later version of the library may have
    more."""
    if isinstance(value, dict):
        return {k: _said(v) for k, v in value.items() if v is not None and v is not False and v not in ("", [], {})}
    return [_said(v) for v in value] if isinstance(value, list) else value


def _hash_json(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def load(
    tokenizer: Any,
    *,
    add_special_tokens: bool = False,
    parse_special: bool = True,
    pattern: str | None = None,
    special_tokens: Mapping[str, int] | None = None,
) -> Tokenizer:
    """The tokenizer of a file or a folder, or that an object of `tokenizers`, `transformers` or `tiktoken` is."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    if isinstance(tokenizer, (str, os.PathLike)):
        return _of_path(os.fspath(tokenizer), add_special_tokens, parse_special, pattern, special_tokens)
    if pattern is not None or special_tokens is not None:
        raise ValueError("pattern and special_tokens belong to a tiktoken file: the tokenizer given has its own")
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(backend, "to_str") and hasattr(backend, "encode_batch"):
        name = os.path.basename(str(getattr(tokenizer, "name_or_path", "") or "")) or "tokenizer.json"
        return _HuggingFace(backend.to_str(), name, add_special_tokens, parse_special)
    if hasattr(tokenizer, "_mergeable_ranks") and hasattr(tokenizer, "_pat_str"):
        return _Tiktoken(tokenizer, f"{tokenizer.name}.tiktoken", parse_special)
    raise TypeError(
        "tokenizer is the path of a tokenizer.json, of a folder with one or of a tiktoken file, or a fast tokenizer of "
        f"transformers, tokenizers or tiktoken, not {type(tokenizer).__name__}"
    )


def kept(tokenizer: Any, **options: Any) -> Tokenizer:
    """As :func:`load`; that of a path is kept until its file changes, since reading a large one takes a second."""
    if not isinstance(tokenizer, (str, os.PathLike)):
        return load(tokenizer, **options)
    path = find_file(os.fspath(tokenizer))
    st = os.stat(path)
    given = {name: dict(v) if isinstance(v, Mapping) else v for name, v in options.items()}
    return _kept(path, (st.st_dev, st.st_ino, st.st_mtime_ns, st.st_size), json.dumps(given))


@functools.lru_cache(4)
def _kept(path: str, stamp: tuple[int, ...], options: str) -> Tokenizer:
    return load(path, **json.loads(options))


def find_file(path: str) -> str:
    """The file of the tokenizer that `path`, a file or a folder, is or holds."""
    if not os.path.isdir(path):
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path}: there is no such tokenizer: give a tokenizer.json, or a tiktoken file")
        return path
    names = sorted(os.listdir(path))
    if "tokenizer.json" in names:
        return os.path.join(path, "tokenizer.json")
    ranks = [n for n in names if n.endswith(".tiktoken")]
    if len(ranks) == 1:
        return os.path.join(path, ranks[0])
    more = f" but {len(ranks)} tiktoken files: name one" if ranks else ", nor a .tiktoken"
    raise FileNotFoundError(f"{path} has no tokenizer.json{more}")


def _of_path(
    path: str, add_special: bool, parse_special: bool, pattern: str | None, special: Mapping[str, int] | None
) -> Tokenizer:
    path = find_file(path)
    with open(path, "rb") as f:
        raw = f.read()
    name = os.path.basename(path)
    if raw.lstrip()[:1] == b"{":
        if pattern is not None or special is not None:
            raise ValueError(f"pattern and special_tokens belong to a tiktoken file: {name} is a tokenizer.json")
        try:
            text = raw.decode()
        except UnicodeDecodeError as e:
            raise FormatError(f"{path}: byte {e.start}: a tokenizer.json is UTF-8") from None
        return _HuggingFace(text, name, add_special, parse_special)
    if add_special:
        raise ValueError(f"{name} is a tiktoken file, which says no special tokens to add: pack_rows adds bos and eos")
    core = _Tiktoken(_encoding(path, _ranks(path, raw), pattern, special), name, parse_special)
    core.given = {"pattern": pattern} if pattern is not None else {}
    core.given |= {"special_tokens": dict(special)} if special is not None else {}
    return core


def _ranks(path: str, raw: bytes) -> dict[bytes, int]:
    """The lines ``base64 rank`` of a tiktoken file."""
    ranks: dict[bytes, int] = {}
    seen: set[int] = set()
    for number, line in enumerate(raw.splitlines(), 1):
        if not line.strip():
            continue
        try:
            word, rank_text = line.split()
            token, rank = base64.b64decode(word, validate=True), int(rank_text)
            if not 0 <= rank < 1 << 31 or not token:
                raise ValueError
        except (ValueError, binascii.Error):
            raise FormatError(
                f"{path} line {number}: neither a tokenizer.json nor a tiktoken file, whose lines are a token in "
                f"base64 and its rank: {line[:40]!r}"
            ) from None
        if token in ranks or rank in seen:
            raise FormatError(f"{path} line {number}: this {'token' if token in ranks else 'rank'} stood here before")
        ranks[token] = rank
        seen.add(rank)
    if not ranks:
        raise FormatError(f"{path} is empty: a tiktoken file has a line for each token")
    return ranks


def _encoding(path: str, ranks: dict[bytes, int], pattern: str | None, special: Mapping[str, int] | None) -> Any:
    """The file has only the ranks: the pattern that cuts text into words is the caller's, or tiktoken's own for the
    encodings that it knows by name."""
    tiktoken = needed("tiktoken")
    known = _known()
    stem = os.path.basename(path).removesuffix(".tiktoken")
    name = pattern if pattern in known else stem
    if pattern is None and stem not in known:
        raise ValueError(
            f"{path} holds ranks, and not how text is cut into words before: give pattern (--pattern), a regular "
            f"expression or one of {', '.join(known)}"
        )
    for rank_of_byte in range(256):
        if bytes([rank_of_byte]) not in ranks:
            raise FormatError(f"{path} has no token for the byte {rank_of_byte}: such text could not be encoded")
    if name in known and (pattern is None or pattern in known):
        arguments = _of_name(name, ranks)
        arguments.pop("explicit_n_vocab", None)  # a file may be shorter
        if special is not None:
            arguments["special_tokens"] = dict(special)
    else:
        arguments = {"name": stem, "pat_str": pattern, "mergeable_ranks": ranks, "special_tokens": dict(special or {})}
    taken = set(ranks.values())
    clash = [t for t, i in arguments["special_tokens"].items() if i in taken]
    if clash and special is None:  # those of the whole encoding, beside a shorter list of ranks
        arguments["special_tokens"] = {t: i for t, i in arguments["special_tokens"].items() if i not in taken}
    elif clash:
        raise ValueError(f"the special token {clash[0]!r} has the number of another token in {path}")
    try:
        return tiktoken.Encoding(**arguments)
    except Exception as e:
        raise ValueError(f"{path}: tiktoken does not take this encoding: {e}") from e


def _known() -> list[str]:
    needed("tiktoken")
    return sorted(needed("tiktoken_ext.openai_public").ENCODING_CONSTRUCTORS)


def _of_name(name: str, ranks: dict[bytes, int]) -> dict[str, Any]:
    """The contents of an encoding of tiktoken, with our ranks in the place of those that it would download."""
    module = needed("tiktoken_ext.openai_public")
    given: Callable[..., dict[bytes, int]] = lambda *args, **more: ranks  # noqa: E731
    names = {**vars(module), "load_tiktoken_bpe": given, "data_gym_to_mergeable_bpe_ranks": given}
    for other, function in module.ENCODING_CONSTRUCTORS.items():
        names[other] = types.FunctionType(function.__code__, names)
    made: dict[str, Any] = names[name]()
    return made

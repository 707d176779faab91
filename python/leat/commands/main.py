"""The parts of the command ``leat`` in Python: `leat pack --tokenizer`, `leat cat --decode` and `leat mix`. Called by
cli/python.c."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import io
import json
import os
import re
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors import InvalidError
from ..files import writing

DONE, FAULTS, FAILED, INTERRUPTED = 0, 1, 2, 130  # exit codes, as of cli/args.h
CLOSED = 141  #: nobody reads standard output any more: what a shell says of a process that SIGPIPE has ended
_command = ""  #: that runs
_begun = 0.0  #: when it began
_told = 0.0  #: when it was told to end
_TWICE = 1.0  #: seconds in which a second signal is the same one
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(name: str, options: Mapping[str, str]) -> int:
    """Runs a command; returns its exit code. `options`: as the command line has read them."""
    warnings.showwarning = lambda message, *more, **others: _say(name, f"warning: {_worded(str(message))}")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout is sys.__stdout__:
        out, line = io.BufferedWriter(_Output(sys.stdout.fileno(), "wb", closefd=False)), sys.stdout.line_buffering
        sys.stdout = io.TextIOWrapper(out, sys.stdout.encoding, line_buffering=line)
    if isinstance(sys.stdout, io.TextIOWrapper):  # characters that a terminal cannot show are escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    commands: dict[str, Callable[[Mapping[str, str]], int]] = {
        "pack": _pack,
        "convert": _pack,
        "cat": _cat,
        "mix": _elsewhere(".mix"),
        "prompts": _elsewhere(".prompts"),
        "replay": _elsewhere(".replay"),
        "view": _elsewhere("..text.view"),
        "stats": _stats,
        "verify": _elsewhere(".verifying"),
    }
    from ..errors import BrokenSampleError, CorruptError, Error

    global _command, _begun, _told
    _command, _begun, _told = name, time.time(), 0.0
    before = {number: signal.getsignal(number) for number in _ENDINGS}
    try:
        for number in _ENDINGS:
            if before[number] != signal.SIG_IGN:  # nohup wants SIGHUP ignored, and a shell SIGINT behind &
                signal.signal(number, _interrupt)
        copying = _elsewhere(".copying") if {"copy", "part", "about"} & options.keys() else None
        code = (copying or commands[name])(options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except (BrokenSampleError, CorruptError) as e:
        _say(name, _worded(str(e)))
        return FAULTS
    except (OSError, ValueError, TypeError, KeyError, ImportError, Error) as e:
        closed = isinstance(e, BrokenPipeError) and e.filename == _OUTPUT
        if not closed:
            said: object = e.args[0] if isinstance(e, KeyError) and e.args else e
            if isinstance(e, OSError) and not isinstance(e, Error) and e.filename is not None:
                said = f"{e.filename}: {e.strerror}"
            _say(name, _worded(str(said)))
        if isinstance(e, OSError) and e.filename == _OUTPUT:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # the interpreter flushes once more
        return CLOSED if closed else FAILED
    finally:  # the interpreter may be ended at once
        for number in _ENDINGS:
            if signal.getsignal(number) == _interrupt:
                signal.signal(number, before[number])


_OUTPUT = "standard output"


class _Output(io.FileIO):
    """Standard output: an error of writing says what could not be written."""

    def write(self, data: Any, /) -> int:
        with writing(_OUTPUT):
            return super().write(data)


# The advice in errors of the package, and the same in options of the command.
_WORDS = (
    ("(tokenizer=)", "with --tokenizer"),
    ("name that of the tokens otherwise (field=), or keep other fields (fields=)", "keep other fields with --fields"),
    ("(field=)", "with --field"),
    ("of kind 'str' with text=", "of kind 'str' with --text"),
    ("resume=True continues", "--resume continues"),
    ("overwrite=True", "--overwrite"),
    ("leat.chat(messages=, tools=) name", "--chat and --tools name"),
    ("leat.chat(template)", "--template PATH"),
    ("prompt= says", "--prompt says"),
    ("give date=", "give --date"),
    ("variables={'bos_token': ...}", """--variables '{"bos_token": ...}'"""),
    ("variables={'eos_token': ...}", """--variables '{"eos_token": ...}'"""),
    ('turns="last"', "--turns last"),
    ("to resume or to overwrite", "--resume continues, --overwrite starts again"),
    ("by split=", "by --split"),
    ("leave out split=", "leave out --split "),
    ("fields={...}", "--field NAME=KIND"),
    ("fields=[...]", "--field NAME"),
)


_FILL = re.compile(r"fill=\{'(.+?)': \.\.\.\}")
_FIELD = re.compile(r"fields=\{'(.+?)': '(\w+)'\}")


def _worded(text: str) -> str:
    text = _FIELD.sub(r"--field \1=\2", _FILL.sub(r"--fill \1=VALUE", text))
    for advice, option in _WORDS:
        text = text.replace(advice, option)
    return text


def _elsewhere(module: str) -> Callable[[Mapping[str, str]], int]:
    """The `main` of a module, which is imported when it is called."""
    return lambda options: int(importlib.import_module(module, __package__).main(options))


def _interrupt(number: int, frame: Any) -> None:
    """Ctrl-C comes twice, of the terminal and of the process that waits for this one (cli/tables.c): the second one
    must not end what the first one has begun to clear away. A later one ends that, too."""
    global _told
    if not _told:
        _told = time.monotonic()
        raise KeyboardInterrupt
    if time.monotonic() - _told > _TWICE:
        os._exit(INTERRUPTED)


def command() -> str:
    """The name of the one that runs."""
    return _command


def no_more_interrupts() -> None:
    """What is left to do gives the file its name: a command that has done so was not interrupted."""
    for number in _ENDINGS:
        signal.signal(number, signal.SIG_IGN)


def _say(name: str, text: str) -> None:
    print(_shown(f"leat {name}: {text}"), file=sys.stderr, flush=True)


def _tell(text: str) -> None:
    print(_shown(text))


def _shown(text: str) -> str:
    """A text in a form for a terminal: control characters are written as escapes, as the core does."""
    from .. import _leat
    from ..text.skipped import plain

    return "\n".join(_leat.escape(plain(line).replace("\0", "\\x00")) for line in text.split("\n"))


def _pack(options: Mapping[str, str]) -> int:
    import leat

    if "dataset" in options:
        from .packing import packed

        return packed(options)
    src, dst = paths_of(options, "src"), options["dst"]
    quiet = "quiet" in options
    metadata = json_option(options, "metadata", '{"licence": "CC0"}')
    if "tokenizer" not in options:
        from .packing import read_here

        return read_here(src, dst, metadata, options, _command == "convert")
    on_bad = options.get("on_bad", "auto")
    dataset = leat.open(src, on_bad=None if on_bad == "auto" else on_bad)
    if "where" in options:
        dataset = dataset.where(options["where"])
    resume = "resume" in options
    try:
        made = leat.tokenize(
            dataset,
            dst,
            tokenizer=options["tokenizer"],
            text=options.get("text", "text"),
            chat=_chat(options),
            tokens=options.get("tokens"),
            fields=options["fields"].split(",") if options.get("fields") else [] if "fields" in options else None,
            on_bad="skip" if options.get("on_error") == "skip" else "raise",
            add_special_tokens="add_special_tokens" in options,
            pattern=options.get("pattern"),
            shard_bytes=int(options.get("shard_bytes", 0)) or None,
            metadata=metadata,
            overwrite="overwrite" in options,
            resume=resume,
            progress=not quiet,
        )
    except KeyboardInterrupt:
        return interrupted(options)
    if not quiet:
        _report(made, options)
    return DONE


def json_option(options: Mapping[str, str], name: str, example: str) -> dict[str, Any] | None:
    try:
        found = json.loads(options[name]) if name in options else {}
    except (ValueError, RecursionError) as e:
        raise ValueError(f"--{name} is no JSON: {e}") from None
    if not isinstance(found, dict):
        raise ValueError(f"--{name} is a JSON object, such as '{example}'")
    return found if name in options else None


@contextlib.contextmanager
def _written(path: str) -> Iterator[Any]:
    with writing(path), open(path, "wb") as out:
        yield out


def several(options: Mapping[str, str], name: str) -> list[str]:
    """All values of an option or argument that may stand several times."""
    return [value for key, value in options.items() if key == name or key.startswith(f"{name} ")]


def paths_of(options: Mapping[str, str], name: str) -> str | list[str]:
    """The path, or all of them if there are several."""
    found = several(options, name)
    return found if len(found) > 1 else found[0]


def _stats(options: Mapping[str, str]) -> int:
    from .prompts import shown

    return shown(options)


def _cat(options: Mapping[str, str]) -> int:
    import leat

    from ..text.decode import Decoder

    path, position = options["path"], int(options.get("id", 0))
    dataset: leat.Dataset = leat.open(paths_of(options, "path"))
    if "length" in options:
        how: Any = options.get("how", "cut")
        dataset = leat.pack_rows(dataset, options.get("field", "tokens"), int(options["length"]), how)
    several = "where" in options
    if several:
        dataset = dataset.where(options["where"])
    elif position >= len(dataset):
        raise ValueError(f"{path} has no sample {position}; it has {len(dataset)}, numbered from 0.")
    named, field = options.get("tokenizer"), options.get("field")
    with contextlib.ExitStack() as opened:
        try:
            decoder = Decoder(dataset, named, field, path, pattern=options.get("pattern"))
            out: Any = None
            for i in range(len(dataset)) if several else [position]:
                text = decoder(i).encode()
                if out is None:  # a file is replaced when there is something to write
                    out = opened.enter_context(_written(options["out"])) if "out" in options else sys.stdout.buffer
                out.write(text + b"\n" * (several or out.isatty()))
        except (InvalidError, FileNotFoundError) as e:
            raise ValueError(str(e)) from e
    return DONE


def _chat(options: Mapping[str, str]) -> Any:
    import leat

    if "chat" not in options:
        return None
    more: dict[str, Any] = {name: options[name] for name in ("turns", "tools", "prompt") if name in options}
    if "learn" in options:
        more["learn"] = [role.strip() for role in options["learn"].split(",") if role.strip()]
        if not more["learn"]:
            raise ValueError("--learn names no role")
    if "date" in options:
        try:
            more["date"] = datetime.date.fromisoformat(options["date"])
        except ValueError:
            raise ValueError(f"--date is a day such as 2026-01-31, not {options['date']!r}") from None
    more["variables"] = json_option(options, "variables", '{"enable_thinking": false}')
    return leat.chat(options.get("template"), messages=options["chat"], **more)


def interrupted(options: Mapping[str, str]) -> int:
    if not os.path.exists(f"{options['dst']}.partial"):
        complete = os.path.exists(options["dst"]) and os.path.getmtime(options["dst"]) >= _begun
        _say(_command, f"interrupted; {options['dst']} was complete." if complete else "interrupted.")
        return INTERRUPTED
    _say(_command, f"interrupted; the complete samples stay in {options['dst']}.partial.")
    print(f"To resume: leat {_words(_command, options)}", file=sys.stderr, flush=True)
    return INTERRUPTED


def _words(command: str, options: Mapping[str, str]) -> str:
    """The command line that resumes."""
    flags = {"add_special_tokens", "lenient", "no_check", "overwrite", "quiet"}
    words = [command, *several(options, "src"), options["dst"]]
    for key, value in options.items():
        name = key.partition(" ")[0]
        if name in flags:
            words.append(f"--{name.replace('_', '-')}")
        elif name not in ("src", "dst", "resume"):
            words += [f"--{name.replace('_', '-')}", value]
    return shlex.join([*words, "--resume"])


def _report(made: Any, options: Mapping[str, str]) -> None:
    from ..text.progress import duration, size
    from ..text.skipped import lines

    seconds = max(made.seconds, 1e-9)
    learned = "" if made.learned is None else f", {made.learned:,} of them learned"
    bytes_ = size(os.path.getsize(made.path))
    _tell(f"{options['dst']}: {made.documents:,} documents, {made.tokens:,} tokens{learned}, {bytes_}")
    if made.empty:
        _tell(f"  {made.empty:,} documents have no token")
    if made.skipped_on_open:
        _tell(f"  {made.skipped_on_open:,} broken records of {options['src']} were left out when it was opened")
    if made.skipped:
        _tell(f"  {made.skipped:,} records were left out: {options['dst']}.bad.jsonl says which and why")
    for line in lines(list(made.skipped_first)):
        _tell(f"    {line}")
    if made.text_bytes:
        _tell(f"  {size(made.text_bytes)} of text in {duration(seconds)}: {size(made.text_bytes / seconds)}/s")

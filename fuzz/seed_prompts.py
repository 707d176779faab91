"""Writes the seeds of fuzz_prompts: python fuzz/seed_prompts.py FOLDER."""

import sys
from pathlib import Path

HEAD = b'{"custom_id": "1", "body": {"messages": [{"role": "user", "content": "'
TEXTS = [
    b"\n".join(HEAD + b"Question %d" % (i % 3) + b"?" * i for i in range(8)),
    b"prompt,n\n" + b"".join(b'"You are helpful.\nSay ""%d""",%d\n' % (i % 4, i) for i in range(9)),
    b"".join(b"abcabcab"[: i % 9] + b"\n" for i in range(40)),  # some empty, equal, prefixes of others
    b"\n\n\r\n\n",
    b'a,"b\nc',
    b"ab" * 300 + b"\n" + b"ab" * 299 + b"ba\n" + b"ab" * 300,
    b"",
]

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(TEXTS):
        for kind in range(4):
            options = bytes([kind | (4 if number % 2 else 0) | (16 if number == 2 else 0), 3 * kind, 40 * kind])
            (folder / f"text-{number}-{1 << kind}").write_bytes(options + text)

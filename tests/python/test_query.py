"""Queries: what `ds.where` selects is what SQLite selects from a real table with the same values."""

from __future__ import annotations

import json
import math
import os
import pickle
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cli_support
import numpy as np
import pytest
from drawn_support import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import leat

LANGUAGES = ["en", "de", "fr", "EN", "zh", "", "it's", "ünï"]
DOMAINS = ["code", "books", "web", "wiki", "law"]
SCHEMA = {
    "language": "str",
    "domain": "str",
    "title": "str",
    "length": "int64",
    "tiny": "int8",
    "big": "uint64",
    "small": "uint16",
    "flag": "bool",
    "quality": "float32",
    "exact": "float64",
    "half": "float16",
    "tokens": leat.field("uint16", (None,)),
    "raw": "bytes",
    "meta": "json",
}
TYPES = {
    **dict.fromkeys(("language", "domain", "title", "meta"), "TEXT"),
    **dict.fromkeys(("length", "tiny", "big", "small", "flag", "tokens.length", "id"), "INTEGER"),
    **dict.fromkeys(("quality", "exact", "half"), "REAL"),
    "raw": "BLOB",
}


def made(n: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        f = [math.nan, math.inf, -math.inf, 0.0, -0.0, 0.1, 2.5, -7.0, 1e300][int(rng.integers(9))]
        rows.append(
            {
                "language": LANGUAGES[int(rng.integers(len(LANGUAGES)))],
                "domain": DOMAINS[int(rng.integers(len(DOMAINS)))],
                "title": f"title {i} of {int(rng.integers(50))}%",
                "length": int(rng.choice([-(2**63), -1, 0, 1, 199, 200, 201, 2**53 + 1, 2**63 - 1, i])),
                "tiny": int(rng.integers(-128, 128)),
                "big": int(rng.choice(np.array([0, 1, 2**63 - 1, 2**63, 2**63 + 1025, 2**64 - 1], np.uint64))),
                "small": int(rng.integers(0, 65536)),
                "flag": bool(rng.integers(2)),
                "quality": np.float32(f) if abs(f) < 1e30 or not math.isfinite(f) else np.float32(1e30),
                "exact": f,
                "half": np.float16(f) if abs(f) < 1e4 or not math.isfinite(f) else np.float16(100),
                "tokens": np.arange(int(rng.integers(0, 5)), dtype=np.uint16),
                "raw": bytes(rng.integers(0, 256, int(rng.integers(0, 4)), dtype=np.uint8)),
                "meta": [None, {"a": i % 5}, [1, 2], "x", i % 3][int(rng.integers(5))],
            }
        )
    return rows


def sql_value(v: Any) -> Any:
    if isinstance(v, (bool, np.bool_)):
        return int(v)
    if isinstance(v, (float, np.floating)):
        return None if math.isnan(v) else float(v)
    if isinstance(v, int) and v >= 2**63:
        return float(v)
    return v


class Oracle:
    """A table of SQLite with the values that the data set gives."""

    def __init__(self, ds: leat.Dataset) -> None:
        self.db = sqlite3.connect(":memory:")
        names = [n for n in TYPES if n == "id" or n.removesuffix(".length") in ds.schema]
        columns = ", ".join(f'"{n}" {TYPES[n]}' for n in names)
        self.db.execute(f"CREATE TABLE t ({columns})")
        ids = ds.ids
        for i in range(len(ds)):
            sample = ds[i]
            sample["id"] = int(ids[i])
            if "tokens" in sample:
                sample["tokens.length"] = len(sample["tokens"])
            if "meta" in sample:
                text = bytes(ds.stored(i, "meta")).decode()
                sample["meta"] = None if json.loads(text) is None else text
            self.db.execute(
                f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", [sql_value(sample[n]) for n in names]
            )

    def ids(self, clause: str) -> list[int]:
        return [i for (i,) in self.db.execute(f"SELECT id FROM t WHERE ({clause}) ORDER BY rowid")]


def write(path: Path, n: int, seed: int = 0) -> leat.Dataset:
    with leat.Writer(path, SCHEMA) as w:
        for row in made(n, seed):
            w.add(**row)
    return leat.open(path)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[leat.Dataset, Oracle]:
    """Fewer rows than texts are coded for: they are read as they are asked for."""
    ds = write(tmp_path_factory.mktemp("query") / "small.leat", 300)
    return ds, Oracle(ds)


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> tuple[leat.Dataset, Oracle]:
    ds = write(tmp_path_factory.mktemp("query") / "coded.leat", 5000, 1)
    return ds, Oracle(ds)


CLAUSES = [
    "language = 'en' AND domain IN ('code','books') AND length > 200",
    "language = 'EN' OR NOT (domain = 'web' AND flag)",
    "language LIKE 'e%' AND domain LIKE '%O%'",
    "title LIKE '%7\\%' ESCAPE '\\'",
    "title GLOB '*[0-3]%' AND title NOT LIKE 'title 1%'",
    "length > '200'",
    "length BETWEEN 1 AND 200 AND tiny NOT BETWEEN -5 AND 5",
    "length IN (1, 200, 9007199254740993, 2.5, -9223372036854775808)",
    "length NOT IN (1, 200)",
    "length >= 9007199254740992.0 AND length < 9223372036854775808",
    "big > 9223372036854775807",
    "big = 18446744073709551615 OR big = 9223372036854775807",
    "big <= 9223372036854775808",
    "NOT big < 5",
    "exact IS NULL",
    "exact IS NOT NULL AND quality NOT NULL",
    "half ISNULL OR exact NOTNULL",
    "NOT exact > 0",
    "exact > -9e999",
    "quality = 0.1",
    "quality <> 2.5",
    "half <= -7",
    "-0.0 = exact",
    "flag",
    "NOT flag",
    "flag = 1 AND tiny % 3 = 1",
    "tiny < 0 OR small > 60000",
    "small * 2 > length",
    "typeof(big) = 'real'",
    "typeof(exact) = 'null' OR typeof(flag) = 'real'",
    '"tokens.length" > 2',
    '"tokens.length" = 0 AND id < 100',
    "raw = x'00' OR length(raw) = 3",
    "meta IS NULL",
    "meta IS NOT NULL AND json_extract(meta, '$.a') = 3",
    "meta ->> '$.a' > 1",
    "CASE WHEN flag OR tiny > 0 THEN length > 5 AND tiny < 100 ELSE domain = 'law' END",
    "id BETWEEN 5 AND 10 OR id IN (7, 70, 700)",
    "id % 2",
    "(language, domain) = ('en', 'code')",
    "language = domain OR language IS domain",
    "language COLLATE NOCASE = 'en'",
    "coalesce(exact, -1) = -1",
    "NOT (NOT (NOT (language = 'de')))",
    "'a' < language AND language < 'f'",
    "language < 5",
    "tiny > 'a'",
    "1",
    "0",
    "NULL",
    "NOT NULL",
    "length -- a comment ) ; \n > 5 /* OR 1 */",
    "+length = 1",
    "language || domain = 'encode'",
    "round(exact) = 3 OR abs(tiny) = 5",
    "exact IN (2.5, -7, 0)",
    "quality BETWEEN -10 AND 0.5",
    "(tiny BETWEEN 0 AND 10) BETWEEN 1 AND 1 AND flag",
    "domain IN ('code', 'law') OR length > 0 AND flag OR (tiny = 3)",
    "length > 0x10 AND length < 1e3",
    "round(length, 1) > -9.2e18 AND abs(length) > 5",
    "length || '' <> '-9223372036854775808' AND abs(length) > 5",
    "length || '' = '-9223372036854775808' OR abs(length) > 5 AND tiny > 0",
    "length || '' <> '-9223372036854775808' AND abs(CASE WHEN tiny > 99 THEN 1 ELSE length END) > 5",
    "language || title NOT GLOB 'en*' AND abs(CASE WHEN language = 'en' THEN 1 << 63 ELSE tiny END) > 5",
    "length > 0x1E-small",
    "length+0 > 0x1E-small",
    "length + 0 > 0x1E-1*20",
    "0xe+tiny > length OR length IN (0x1E-1, 1E+2, 2.e2, .5e1-small)",
    "unicode(language) = 252",
    "CASE WHEN length > 100 THEN 'long' WHEN length < 0 THEN 'short' ELSE language END IN ('long', 'en', 'de')",
    "CASE language WHEN 'en' THEN tiny WHEN 'de' THEN exact ELSE length END > 5",
    "length(title) + tiny > 20 AND CASE WHEN flag THEN tiny > 5 ELSE length(language) > 1 END",
    "coalesce(exact, tiny, 0.5) / 2 > length(language || domain)",
    "coalesce(nullif(language, 'en'), domain) = domain AND tiny > 3",
    "iif(tiny > 0, language, domain) LIKE 'c%' OR iif(tiny > 0, language, domain) < 'd'",
    "CASE WHEN tiny > 0 THEN language COLLATE NOCASE ELSE 'x' END = 'EN'",
    "abs(CASE WHEN length > 0 THEN length ELSE tiny END) > 100",
    "(tiny << 60) | small & 255 > ~length",
    "max(tiny, exact, small % 7) > min(length, 3)",
    "nullif(tiny, 5) IS NULL OR tiny IS NOT DISTINCT FROM 7",
    "CAST(exact * 3 AS INTEGER) = 7 OR CAST(tiny AS REAL) / 2 = 1.5",
    "1 = NOT (language = 'en') + tiny",
    "tiny = '5' OR '7' = tiny",
    "CASE WHEN language = 'en' THEN '5' ELSE tiny END = tiny",
    "meta ->> '$.a' + tiny > 3",
    "length IN (tiny, small, 200) AND language IN ('en', domain, title)",
    "tiny IS TRUE AND exact IS NOT FALSE",
    "tiny IS (TRUE) OR exact + 1 IS NOT ((FALSE))",
]


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_clause_selects_what_sqlite_selects(
    clause: str, small: tuple[leat.Dataset, Oracle], coded: tuple[leat.Dataset, Oracle]
) -> None:
    for ds, oracle in (small, coded):
        assert ds.where(clause).ids.tolist() == oracle.ids(clause)


NUMBERS = ["length", "tiny", "big", "small", "flag", "quality", "exact", "half", '"tokens.length"', "id"]
CONSTANTS = ["0", "1", "-1", "200", "2.5", "0.1", "-7", "9223372036854775807", "9223372036854775808", "1e300", "-128"]
NAMES = ["language", "domain", "title", '"domain"', "[language]"]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


LITERALS = st.sampled_from([*map(quoted, LANGUAGES), *map(quoted, DOMAINS), "NULL", "'%e%'", "'_'"])
LEAVES = st.one_of(
    st.builds(
        lambda a, o, b, turn: f"{b} {o} {a}" if turn else f"{a} {o} {b}",
        st.sampled_from(NUMBERS),
        st.sampled_from(["=", "<", "<=", ">", ">=", "<>", "!=", "==", "IS", "IS NOT"]),
        st.sampled_from([*CONSTANTS, *NUMBERS, "NULL", "'1'"]),
        st.booleans(),
    ),
    st.builds(
        lambda a, n, b, c: f"{a} {n}BETWEEN {b} AND {c}",
        st.sampled_from(NUMBERS),
        st.sampled_from(["", "NOT "]),
        st.sampled_from(CONSTANTS),
        st.sampled_from(CONSTANTS),
    ),
    st.builds(
        lambda a, n, b: f"{a} {n}IN ({', '.join(b)})",
        st.sampled_from(NUMBERS),
        st.sampled_from(["", "NOT "]),
        st.lists(st.sampled_from([*CONSTANTS, "NULL"]), max_size=4),
    ),
    st.builds(
        lambda a, o, b: f"{a} {o} {b}",
        st.sampled_from(NAMES),
        st.sampled_from(["=", "<", ">=", "<>", "LIKE", "NOT LIKE", "GLOB", "IS", "IS NOT"]),
        LITERALS,
    ),
    st.builds(lambda a, b: f"{a} IN ({', '.join(b)})", st.sampled_from(NAMES), st.lists(LITERALS, max_size=3)),
    st.builds(lambda a, o: f"{a} {o}", st.sampled_from([*NUMBERS, *NAMES]), st.sampled_from(["ISNULL", "NOTNULL", ""])),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, o, b: f"{a} {o} {b}", inner, st.sampled_from(["AND", "OR", "and"]), inner),
        st.builds(lambda a, o, b: f"({a}) {o} ({b})", inner, st.sampled_from(["AND", "OR", "=", "<"]), inner),
        st.builds(lambda a: f"NOT {a}", inner),
        st.builds(lambda a: f"NOT ({a})", inner),
        st.builds(lambda a, b: f"CASE WHEN {a} THEN {b} END", inner, inner),
    ),
    max_leaves=8,
)


@examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(clause=TREES, which=st.booleans())
def test_any_clause_selects_what_sqlite_selects(
    clause: str, which: bool, small: tuple[leat.Dataset, Oracle], coded: tuple[leat.Dataset, Oracle]
) -> None:
    ds, oracle = coded if which else small
    assert ds.where(clause).ids.tolist() == oracle.ids(clause)


SUMS = st.recursive(
    st.sampled_from([*NUMBERS, *CONSTANTS, "3", "-3", "7", "100", "0x10", "1e18"]),
    lambda inner: st.one_of(
        st.builds(
            lambda a, o, b, inside: f"({a} {o} {b})" if inside else f"{a} {o} {b}",
            inner,
            st.sampled_from(["+", "-", "*", "/", "%"]),
            inner,
            st.booleans(),
        ),
        st.builds(lambda s, a: f"{s} {a}", st.sampled_from(["-", "+"]), inner),
    ),
    max_leaves=6,
)
COMPARED = st.one_of(
    st.builds(
        lambda a, o, b: f"{a} {o} {b}", SUMS, st.sampled_from(["=", "<", "<=", ">", ">=", "<>", "!=", "=="]), SUMS
    ),
    st.builds(lambda a, n, b, c: f"{a} {n}BETWEEN {b} AND {c}", SUMS, st.sampled_from(["", "NOT "]), SUMS, SUMS),
    st.builds(
        lambda a, n, b: f"{a} {n}IN ({', '.join(b)})",
        SUMS,
        st.sampled_from(["", "NOT "]),
        st.lists(SUMS, min_size=1, max_size=3),
    ),
)


@examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(clause=COMPARED, negated=st.booleans(), which=st.booleans())
def test_sums_are_what_sqlite_makes_of_them(
    clause: str, negated: bool, which: bool, small: tuple[leat.Dataset, Oracle], coded: tuple[leat.Dataset, Oracle]
) -> None:
    ds, oracle = coded if which else small
    clause = f"NOT ({clause})" if negated else clause
    assert ds.where(clause).ids.tolist() == oracle.ids(clause)


class Clauses:
    """Expressions over numbers and texts, drawn from a seed; deeper ones are rarer."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, *of: str) -> str:
        return self.random.choice(of)

    def case(self, value: Callable[[int], str], depth: int) -> str:
        if self.random.random() < 0.3:
            base = self.pick("number", "word")
            of = self.number if base == "number" else self.word
            head, condition = f"CASE {of(depth)}", of
        else:
            head, condition = "CASE", self.truth
        whens = "".join(f" WHEN {condition(depth)} THEN {value(depth)}" for _ in range(self.random.randint(1, 3)))
        return head + whens + (f" ELSE {value(depth)}" if self.random.random() < 0.7 else "") + " END"

    def number(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.2:
            return self.pick(*NUMBERS, *CONSTANTS, "3", "7", "NULL", "0x10")
        a, b, c = (self.number(depth - self.random.randint(1, 3)) for _ in range(3))
        word = self.word(depth - 2)
        form = self.random.randrange(9)
        if form == 0:
            return self.case(self.number, depth - 2)
        if form == 1:
            name = self.pick("abs", "sign", "round", "likely", "-", "~", "+", "length")
            return f"{name} ({a})"
        if form == 2:
            return f"CAST({a} AS {self.pick('INTEGER', 'REAL')})"
        if form == 3:
            return f"{self.pick('coalesce', 'max', 'min', 'iif')}({a}, {b}, {c})"
        if form == 4:
            return f"{self.pick('nullif', 'ifnull')}({a}, {b})"
        if form == 5:
            return self.pick(f"length({word})", f"unicode({word})", f"instr({word}, 'e')", f"({self.truth(depth - 2)})")
        operator = self.pick("+", "-", "*", "/", "%", "&", "|", "<<", ">>")
        return self.pick(f"({a} {operator} {b})", f"{a} {operator} {b}")

    def word(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.3:
            return self.pick(*NAMES, *map(quoted, LANGUAGES), *map(quoted, DOMAINS), "'%e%'", "NULL")
        a, b = self.word(depth - 1), self.word(depth - 2)
        form = self.random.randrange(5)
        if form == 0:
            return self.case(self.word, depth - 2)
        if form == 1:
            return f"{self.pick('coalesce', 'nullif', 'max', 'min')}({a}, {b})"
        if form == 2:
            return f"{self.pick('lower', 'upper', 'trim', 'typeof', 'quote')}({a})"
        return self.pick(f"substr({a}, 2)", f"({a} || {b})", f"iif({self.truth(depth - 2)}, {a}, {b})")

    def truth(self, depth: int) -> str:
        if depth <= 0:
            return self.pick("flag", "tiny > 0", "exact IS NULL", "half NOTNULL", "domain = 'web'", "TRUE", "NULL")
        of = self.number if self.random.random() < 0.5 else self.word
        a, b, c = of(depth - 1), of(depth - 2), of(depth - 2)
        negated = self.pick("", "NOT ")
        form = self.random.randrange(8)
        if form == 0:
            return f"{a} {negated}BETWEEN {b} AND {c}"
        if form == 1:
            return f"{a} {negated}IN ({b}, {c})"
        if form == 2:
            return (
                f"{negated}({self.truth(depth - 1)}) {self.pick('AND', 'OR', '=', '<', 'IS')} ({self.truth(depth - 2)})"
            )
        if form == 3:
            return self.case(self.truth, depth - 1)
        if form == 4:
            return f"{self.word(depth - 1)} {negated}{self.pick('LIKE', 'GLOB')} {self.word(depth - 2)}"
        if form == 5:
            return f"{a} {self.pick('ISNULL', 'NOTNULL', 'NOT NULL', 'IS NOT NULL', 'IS TRUE')}"
        return f"{a} {self.pick('=', '==', '<', '<=', '>', '>=', '<>', '!=', 'IS', 'IS NOT')} {b}"


@examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), depth=st.integers(1, 6), which=st.booleans())
def test_cases_and_functions_are_what_sqlite_makes_of_them(
    seed: int, depth: int, which: bool, small: tuple[leat.Dataset, Oracle], coded: tuple[leat.Dataset, Oracle]
) -> None:
    ds, oracle = coded if which else small
    clause = Clauses(seed).truth(depth)
    try:
        want = oracle.ids(clause)
    except sqlite3.OperationalError as error:
        # abs() of the least integer. Whether it is seen depends on the rows that are asked.
        assert "overflow" in str(error), clause
        try:
            ds.where(clause)
        except ValueError as said:
            assert "overflow" in str(said)
        return
    assert ds.where(clause).ids.tolist() == want, clause


@pytest.mark.parametrize("view", ["slice", "stride", "order", "repeats", "few"])
def test_a_view_is_asked_in_its_own_order(view: str, coded: tuple[leat.Dataset, Oracle]) -> None:
    ds, oracle = coded
    rng = np.random.default_rng(0)
    part = {
        "slice": lambda: ds[1000:4000],
        "stride": lambda: ds[::3],
        "order": lambda: ds.select(rng.permutation(len(ds))),
        "repeats": lambda: ds.select(rng.integers(0, len(ds), 700)),
        "few": lambda: ds[::500],
    }[view]()
    for clause in ("domain = 'code' AND length > 100", "title LIKE '%3%' OR language = 'de'", "exact IS NULL"):
        inside = set(oracle.ids(clause))
        assert part.where(clause).ids.tolist() == [i for i in part.ids.tolist() if i in inside]


def test_joined_and_zipped_data_sets_are_asked_as_one(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.leat", 40, 3), write(tmp_path / "b.leat", 30, 4)
    both = leat.concat(a, b)
    clause = "domain = 'code' OR tiny > 60"
    assert both.where(clause).ids.tolist() == Oracle(both).ids(clause)
    side = leat.zip(left=a, right=leat.from_arrays(x=np.arange(40)))
    assert side.where('"right.x" >= 38 OR "left.flag"').ids.tolist() == [
        i for i in range(40) if i >= 38 or a[i]["flag"]
    ]


def test_computed_values_are_asked_too() -> None:
    class Source:
        fields = {"word": leat.field("str"), "n": leat.field("int64")}

        def __len__(self) -> int:
            return 6000

        def read(self, positions: Any) -> dict[str, Any]:
            return {"word": [f"w{p % 7}" for p in positions], "n": [int(p) for p in positions]}

    ds = leat.from_source(Source())
    assert ds.where("word = 'w3' AND n < 50").ids.tolist() == [i for i in range(50) if i % 7 == 3]


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clause", "says"),
    [
        ("langage = 'en'", "did you mean language"),
        ('language = "en"', "en"),
        ("tokens.length > 2", "double quotes"),
        ("tokens > 2", "tokens.length"),
        ("rowid = 1", "ROWID"),
        ("nothing_like_it = 1", "there are language, domain"),
        ("length >", "no SQL expression"),
        ("length > 1; DROP TABLE samples", '";"'),
        ("length > 1) OR (1", "too many"),
        ("(length > 1", "not closed"),
        ("title = 'abc", "has no end"),
        ("", "empty"),
        (" -- nothing", "empty"),
        ("length = ?", "parameter"),
        ("length = :x", "variable"),
        ("length > 1 LIMIT 1", "no SQL expression"),
        ("length IN (SELECT length FROM samples)", "SELECT"),
        ("EXISTS (SELECT 1)", "SELECT"),
        (
            "(WITH RECURSIVE r(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r) > 5",
            "refused|compound",
        ),
        ("1 IN sqlite_master", "refused|no such table"),
        ("load_extension('x')", "refused|no such function"),
        ("random() > 0", "random"),
        ("date('now') > '2020'", "date"),
        ("zeroblob(1000000000) = 1", "zeroblob"),
        ("randomblob(10) = 1", "randomblob"),
        ("count(*) > 1", "count"),
        ("max(length) > 1", "aggregate"),
        ("length > min(length)", "aggregate"),
        ("row_number() OVER () > 1", "row_number|misuse"),
        ("language MATCH 'x'", "match|MATCH"),
        ("language REGEXP 'x'", "REGEXP"),
        ("abs(length) > 1 AND length = -9223372036854775808", "overflow"),
        ("(1, 2)", "list|row value"),
    ],
)
def test_what_is_no_expression_over_a_sample_is_refused(
    clause: str, says: str, small: tuple[leat.Dataset, Oracle]
) -> None:
    with pytest.raises(ValueError, match=says):
        small[0].where(clause)


def test_nothing_is_written_or_attached(small: tuple[leat.Dataset, Oracle], tmp_path: Path) -> None:
    target = tmp_path / "written.db"
    for clause in (
        f"1; ATTACH '{target}' AS x",
        f"1) FROM samples; ATTACH '{target}' AS x; --",
        f"writefile('{target}', 'x') > 0",
        "1 UNION SELECT 1",
        "PRAGMA writable_schema = 1",
        "(DELETE FROM samples)",
    ):
        with pytest.raises(ValueError):
            small[0].where(clause)
    assert not target.exists()


def test_patterns_of_many_wildcards_end(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"text": "str"}) as w:
        w.add(text="a" * 5000)
    ds = leat.open(tmp_path / "a.leat")
    assert len(ds.where(f"text LIKE '{'%a' * 200}%b'")) == 0
    assert len(ds.where(f"text GLOB '{'*a' * 200}*'")) == 1


def test_names_that_differ_only_in_case_are_named(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"A": "int64", "a": "int64"}) as w:
        w.add(A=1, a=2)
    with pytest.raises(ValueError, match="upper and lower case"):
        leat.open(tmp_path / "a.leat").where("a = 1")


def test_a_clause_is_text(small: tuple[leat.Dataset, Oracle]) -> None:
    with pytest.raises(TypeError, match="not int"):
        small[0].where(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="NUL"):
        small[0].where("1\0")


# ---- selections ------------------------------------------------------------------------------------------------------


def test_equal_selections_have_equal_fingerprints(coded: tuple[leat.Dataset, Oracle]) -> None:
    ds, _ = coded
    a = ds.where("tiny > 0")
    assert a.fingerprint == ds.where("NOT tiny <= 0").fingerprint == ds.select(a.ids).fingerprint
    assert a.fingerprint == leat.open(ds.about["shards"][0]["path"]).where("tiny >= 1").fingerprint
    assert a.fingerprint != ds.where("tiny > 1").fingerprint
    assert ds.where("1").fingerprint == ds.fingerprint


def test_views_of_many_runs_in_any_order_combine() -> None:
    """So many runs are kept as a compressed bitmap while they are sorted."""
    ds = leat.from_arrays(x=np.arange(200_000))
    even = np.arange(0, 200_000, 2)
    view = ds.select(np.random.default_rng(0).permutation(even))
    assert np.array_equal((view & ds).ids, even)
    assert np.array_equal((view | ds[:3]).ids, np.union1d(even, [0, 1, 2]))
    assert np.array_equal((ds - view).ids, even + 1)


def test_only_views_of_one_data_set_combine(coded: tuple[leat.Dataset, Oracle], tmp_path: Path) -> None:
    ds, _ = coded
    other = write(tmp_path / "other.leat", 50, 9)
    with pytest.raises(ValueError, match="different data sets"):
        ds.where("flag") & other
    with pytest.raises(TypeError):
        ds & [1, 2]  # type: ignore[operator]
    again = leat.open(ds.about["shards"][0]["path"])
    assert len(ds.where("flag") - again.where("flag")) == 0


def test_selections_pickle_small_and_come_back_equal(coded: tuple[leat.Dataset, Oracle]) -> None:
    ds, _ = coded
    a = ds.where("small % 2 = 1")
    for view in (a, a & ds[:3000], a - ds.where("flag"), a.where("tiny > 0"), a[10:500], ds.select(a.ids)):
        data = pickle.dumps(view)
        back = pickle.loads(data)
        assert len(data) < 5000
        assert back.fingerprint == view.fingerprint
        assert np.array_equal(back.ids, view.ids)


def test_a_selection_of_data_that_changed_is_not_unpickled(tmp_path: Path) -> None:
    data = pickle.dumps(write(tmp_path / "a.leat", 500, 1).where("tiny > 0"))
    assert len(pickle.loads(data)) > 0
    (tmp_path / "a.leat").unlink()
    write(tmp_path / "a.leat", 500, 2)
    with pytest.raises(leat.ChangedError, match="changed"):
        pickle.loads(data)


class Changing:
    """A source whose values change though its version does not."""

    fields = {"x": leat.field("int64")}
    version = "1"
    sign = 1

    def __len__(self) -> int:
        return 100

    def read(self, positions: Any) -> dict[str, Any]:
        return {"x": (positions - 30) * Changing.sign}


def test_a_clause_that_selects_other_samples_than_before_is_an_error() -> None:
    data = pickle.dumps(leat.from_source(Changing()).where("x > 0"))
    assert len(pickle.loads(data)) == 69
    Changing.sign = -1
    try:
        with pytest.raises(leat.ChangedError, match=r"where\('x > 0'\) selects other samples"):
            pickle.loads(data)
    finally:
        Changing.sign = 1


def test_selections_survive_fork(coded: tuple[leat.Dataset, Oracle]) -> None:
    ds, _ = coded
    view = ds.where("small % 2 = 1")
    want = [view.fingerprint, len(view.where("flag"))]
    child = os.fork()
    if not child:
        os._exit(0 if [view.fingerprint, len(view.where("flag"))] == want else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_selection_is_a_view_everywhere(coded: tuple[leat.Dataset, Oracle]) -> None:
    ds, oracle = coded
    view = ds.where("domain = 'code' AND small % 2")
    ids = oracle.ids("domain = 'code' AND small % 2")
    loader = leat.Loader(view, batch_size=32, shuffle=True, seed=1, outputs={"small": []}, framework="numpy")
    seen = np.concatenate([batch.ids for batch in loader])
    assert sorted(seen.tolist()) == ids
    assert sorted(np.concatenate([p.ids for p in view.split([0.5, 0.5])]).tolist()) == ids
    assert leat.concat(view, ds[:5]).ids.tolist() == ids + [len(ds) + i for i in range(5)]
    assert view.select([3, 1]).ids.tolist() == [ids[3], ids[1]]
    assert view[7]["domain"] == "code"
    assert np.array_equal(view.column("small"), ds.column("small")[ids])


def test_a_state_says_which_clause_its_run_was_over(coded: tuple[leat.Dataset, Oracle]) -> None:
    ds, _ = coded
    view = ds.where("domain = 'code'") - ds.where("flag")
    loader = leat.Loader(view, batch_size=8, seed=1, outputs={"small": []}, framework="numpy")
    next(iter(loader))
    state = loader.state_dict()
    assert "domain = 'code'" in str(state["view"])


def test_a_class_in_the_place_of_its_number_is_told(photos: Path, recwarn: pytest.WarningsRecorder) -> None:
    ds = leat.open(photos)
    assert len(ds.where("label = 1")) == 12 and not len(ds.where("label = 7")) and not recwarn
    with pytest.warns(UserWarning, match="selects nothing; labels are numbers: 'even' is 0, 'odd' is 1"):
        assert not len(ds.where("label = 'odd' OR label IN ('even')"))


# ---- selections of others --------------------------------------------------------------------------------------------


def test_masks_and_positions_of_arrow_select(small: tuple[leat.Dataset, Oracle]) -> None:
    pa = pytest.importorskip("pyarrow")
    ds, _ = small

    class Only:
        """An array that speaks nothing but the Arrow C data interface."""

        def __init__(self, array: Any) -> None:
            self._array = array

        def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
            return self._array.__arrow_c_array__(requested_schema)

    class Stream:
        def __init__(self, array: Any) -> None:
            self._array = array

        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return self._array.__arrow_c_stream__(requested_schema)

    mask = np.arange(len(ds)) % 3 == 1
    want = np.flatnonzero(mask).tolist()
    for kind in (pa.int64(), pa.uint32(), pa.int16()):
        assert ds.select(Only(pa.array(want, kind))).ids.tolist() == want
        assert ds.select(Only(pa.array([0, *want], kind)[1:])).ids.tolist() == want
    assert ds[Only(pa.array(mask))].ids.tolist() == want
    assert ds.select(Only(pa.array(mask))).ids.tolist() == want
    chunks = pa.chunked_array([pa.array(mask[:100]), pa.array(mask[100:])])
    assert ds.select(Stream(chunks)).ids.tolist() == want
    assert ds.select(Stream(pa.table({"id": pa.chunked_array([want[:5], want[5:]])}))).ids.tolist() == want
    assert ds.select(Only(pa.StructArray.from_arrays([pa.array([0, *want])], ["id"])[1:])).ids.tolist() == want
    nulls = pa.array([None if i % 2 else True for i in range(len(ds))])
    assert ds.select(Only(nulls)).ids.tolist() == list(range(0, len(ds), 2))
    with pytest.raises(ValueError, match="NULL"):
        ds.select(Only(pa.array([1, None])))
    with pytest.raises(TypeError, match="integers"):
        ds.select(Only(pa.array(["a"])))


# ---- real data -------------------------------------------------------------------------------------------------------


def test_real_domains_are_found(tmp_path: Path) -> None:
    files = sorted(cli_support.real_data("text/mixture").glob("*.jsonl"))
    rows = []
    for file in files:
        with file.open() as lines:
            rows += [json.loads(line) for _, line in zip(range(2000), lines, strict=False)]
    flat = [{f"meta.{k}": str(v) for k, v in r["meta"].items()} | {"n": len(r["text"])} for r in rows]
    names = sorted({k for r in flat for k in r} - {"n"})
    flat = [{k.replace(".", "_"): r.get(k, "") for k in [*names, "n"]} for r in flat]
    fields = [k for k in flat[0] if k != "n"]
    with leat.Writer(tmp_path / "mix.leat", {**dict.fromkeys(fields, "str"), "n": "int64"}) as w:
        for r in flat:
            w.add(**r)
    ds = leat.open(tmp_path / "mix.leat")
    assert ds.where("n > 1000").ids.tolist() == [i for i, r in enumerate(flat) if r["n"] > 1000]
    for k in fields:
        value = flat[17][k]
        found = ds.where(f"{k} = {quoted(value)} AND n % 2 = 0").ids.tolist()
        assert found == [i for i, r in enumerate(flat) if r[k] == value and r["n"] % 2 == 0]


def test_what_a_json_record_lacks_is_null(tmp_path: Path) -> None:
    records = [{"n": i % 7, "meta": {"domain": "ab"[i % 2]}} for i in range(5000)]
    for i, r in enumerate(records):
        if i % 5 == 0:
            r["meta"] = {}
        if i % 11 == 0:
            r["n"] = None
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    ds = leat.open(tmp_path / "a.jsonl", index_dir=tmp_path)
    db = sqlite3.connect(":memory:")
    db.execute('CREATE TABLE t (id INTEGER, n INTEGER, "meta.domain" TEXT)')
    for i, r in enumerate(records):
        db.execute("INSERT INTO t VALUES (?, ?, ?)", (i, r["n"], r["meta"].get("domain")))  # type: ignore[attr-defined]
    for clause in (
        '"meta.domain" IS NULL',
        "\"meta.domain\" = 'a' AND n > 3",
        "NOT n > 3",
        "n IS NULL",
        "n IS NOT NULL OR \"meta.domain\" <> 'a'",
        "n % 2 = 0",
        "n IN (0, 5)",
    ):
        want = [i for (i,) in db.execute(f"SELECT id FROM t WHERE {clause} ORDER BY id")]
        assert ds.where(clause).ids.tolist() == want
        assert ds[:200].where(clause).ids.tolist() == [i for i in want if i < 200]

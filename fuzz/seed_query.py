"""Writes the seeds of fuzz_query: python fuzz/seed_query.py FOLDER."""

import sys
from pathlib import Path

CLAUSES = [
    "language = 'en' AND domain IN ('code', 'de') AND length > 200",
    "NOT (length BETWEEN 1 AND 200 OR quality <= 0.5) OR flag",
    "length NOT IN (1, -2.5, 1e3, 0x10) AND quality IS NOT NULL",
    "language LIKE 'e_%' ESCAPE '\\' OR domain GLOB '*[a-d^]?'",
    "CASE WHEN flag THEN length END > 5 AND id % 2 -- end",
    "(language || domain) COLLATE NOCASE = 'enen' /* x */",
    "coalesce(quality, abs(length)) < 18446744073709551615",
    'typeof(quality) ISNULL OR length NOTNULL AND [flag] <> "flag"',
    "CASE language WHEN 'en' THEN length * 2 WHEN 'de' THEN 'x' ELSE quality END BETWEEN 1 AND 9",
    "iif(flag, language, coalesce(nullif(domain, 'code'), 'x')) IN ('en', lower(domain)) IS NOT TRUE",
    "max(length, CAST(quality * 3 AS INTEGER)) << 2 & ~7 | sign(length) IS NOT DISTINCT FROM abs(length)",
    "length(language) + length % 7 NOT IN (1, round(quality), -(NULL))",
    "length > 0x1E-flag",
    "length + 0 > 0x1E-1*20 AND 1e+1-.5e-1 < length",
    "1) UNION SELECT (1",
    "length IN (SELECT 1); --",
]

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number, clause in enumerate(CLAUSES):
        (folder / f"clause-{number:02}").write_text(clause)

"""Every call that is listed as different from PyTorch's has an entry in the table of docs/differences.md."""

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "differences.md"
HEADING = "## Calls that are listed as different"


def entries():
    """Return the rows of the table as (patterns of operators, kinds of change)."""
    section = PAGE.read_text().partition(HEADING)[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return [(re.findall("`([^`]+)`", names), set(kinds.split(", "))) for names, kinds, _ in rows]


def explained(name, change, table):
    """Return True if a row names the operator, with or without its namespace, and the kind of change."""
    name = name.partition("|")[0]
    names = {name, name.rpartition(".")[2], name.removeprefix("nn.functional.")}
    return any(change in kinds and any(fnmatchcase(n, pattern) for n in names for pattern in patterns) for patterns, kinds in table)


def listed():
    """Yield (operator, kind of change) for every difference that the two files allow."""
    for file in ("differences.json", "ceiling.json"):
        for name, row in json.loads((HERE / file).read_text()).items():
            for key in row:
                yield name, re.match("two tensors|all tensors|in place|[a-z]+", key).group()


def test_every_listed_difference_is_explained():
    table = entries()
    assert len(table) > 20
    missing = {(name, change) for name, change in listed() if not explained(name, change, table)}
    assert not missing, f"no entry in docs/differences.md: {sorted(missing)}"


def test_every_entry_explains_something():
    found = list(listed())
    for patterns, kinds in entries():
        for pattern in patterns:
            assert any(explained(name, change, [([pattern], kinds)]) for name, change in found), f"{pattern}: nothing differs"


def test_an_operator_without_entry_is_found():
    table = [(["fft.*"], {"values"})]
    assert explained("fft.fft", "values", table)
    assert not explained("fft.fft", "out", table) and not explained("sort", "values", table)

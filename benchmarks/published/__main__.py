"""Compare predicted with published figures.

    python -m benchmarks.published [--write] [--check]

Prints the page; ``--write`` writes docs/accuracy.md and the bands that estimates print, and ``--check`` tells whether they are as
they would be written.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .page import BANDS, KINDS, PAGE, band_of, compared, page


def contents() -> list[tuple[Path, str]]:
    """Return the page and the file of bands with their texts."""
    found = compared()
    bands = json.dumps({"page": "docs/accuracy.md", "bands": {kind: band_of(kind, found.rows) for kind in KINDS}}, indent=1) + "\n"
    return [(PAGE, page(found)), (BANDS, bands)]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    files = contents()
    if options.write:
        for path, text in files:
            path.write_text(text)
    elif options.check:
        stale = [path.name for path, text in files if path.read_text() != text]
        raise SystemExit(f"{', '.join(stale)}: run python -m benchmarks.published --write" if stale else 0)
    else:
        print(files[0][1])


if __name__ == "__main__":
    main()

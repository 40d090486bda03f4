"""Check the size of source files. A file should have 150 to 300 lines of code; more than 600 are an error.

    python tools/check_file_size.py [FILE ...]

Without arguments, all source files that git tracks are checked. Blank lines, comments and docstrings are not
counted. A file above 300 lines causes a warning. The exit status is 1 if a file is above 600.
"""

import argparse
import subprocess
import sys
import tokenize
from pathlib import Path

AIM, LIMIT = 300, 600
SUFFIXES = {".py", ".pyx", ".pxd"}
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}


def tracked() -> list[Path]:
    """Return the files that git tracks, and untracked files that are not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True, check=True
    )
    return [Path(line) for line in listed.stdout.splitlines()]


def code_lines(path: Path) -> int:
    """Return the number of lines of a Python or Cython file that contain code."""
    counted: set[int] = set()
    statement: list[tokenize.TokenInfo] = []
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.NEWLINE:
                if any(part.type != tokenize.STRING for part in statement):
                    counted.update(row for part in statement for row in range(part.start[0], part.end[0] + 1))
                statement = []
            elif token.type not in LAYOUT:
                statement.append(token)
    return len(counted)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    files = parser.parse_args().files or tracked()
    # Counting code takes far longer than counting lines, and most files are short enough in lines.
    long = [path for path in files if path.suffix in SUFFIXES and path.is_file() and path.read_bytes().count(b"\n") > AIM]
    lengths = [(code_lines(path), path) for path in long]
    failed = False
    for lines, path in sorted(lengths, reverse=True):
        if lines > LIMIT:
            failed = True
            print(f"error: {path} has {lines} lines of code, above the limit of {LIMIT}: split it")
        elif lines > AIM:
            print(f"warning: {path} has {lines} lines of code, above the aim of {AIM}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

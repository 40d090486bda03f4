"""Hold source files to their budget: 150 to 300 lines of code is the aim, 600 the limit.

    python tools/check_file_size.py [FILE ...]

Without arguments, checks every source file that git tracks. Blank lines, comments and docstrings are not
counted, so that nothing is gained by leaving them out. Prints a warning above 300 lines and an error above
600; exits with 1 if there was an error.
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
    """Return the files known to git, and those that are new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True, check=True
    )
    return [Path(line) for line in listed.stdout.splitlines()]


def code_lines(path: Path) -> int:
    """Count the lines of a Python or Cython file that hold code."""
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
    lengths = [(code_lines(path), path) for path in files if path.suffix in SUFFIXES and path.is_file()]
    failed = False
    for lines, path in sorted(lengths, reverse=True):
        if lines > LIMIT:
            failed = True
            print(f"error: {path} has {lines} lines of code, above the limit of {LIMIT}: it is two files")
        elif lines > AIM:
            print(f"warning: {path} has {lines} lines of code, above the aim of {AIM}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

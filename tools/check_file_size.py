"""Hold source files to their budget: 150 to 300 lines is the aim, 600 the limit.

    python tools/check_file_size.py [FILE ...]

Without arguments, every source file that git tracks. Prints a warning above 300 lines and an
error above 600; exits 1 if there was an error.
"""

import argparse
import subprocess
import sys
from pathlib import Path

AIM, LIMIT = 300, 600
SUFFIXES = {".py", ".pyx", ".pxd"}


def tracked() -> list[Path]:
    """Source files known to git, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True, check=True
    )
    return [Path(line) for line in listed.stdout.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    files = parser.parse_args().files or tracked()
    lengths = []
    for path in files:
        if path.suffix in SUFFIXES and path.is_file():
            lengths.append((len(path.read_bytes().splitlines()), path))
    failed = False
    for lines, path in sorted(lengths, reverse=True):
        if lines > LIMIT:
            failed = True
            print(f"error: {path} has {lines} lines, above the limit of {LIMIT}: it is two files")
        elif lines > AIM:
            print(f"warning: {path} has {lines} lines, above the aim of {AIM}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""The ``metatensor`` command. It needs click and rich, which the extra ``cli`` installs."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line. If click or rich is missing, print how to install it and exit with status 1."""
    try:
        import click
        import rich
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print(
            f"The metatensor command needs {error.name}, which is not installed. Install it with\n"
            f"    {sys.executable} -m pip install 'metatensor-device[cli]'",
            file=sys.stderr,
        )
        raise SystemExit(1) from None
    del click, rich
    from metatensor.cli.app import app

    app(prog_name="metatensor")

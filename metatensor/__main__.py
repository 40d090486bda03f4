"""``python -m metatensor``: the command line."""

from metatensor.cli import main

if __name__ == "__main__":
    main()

"""Write metatensor/overloads/aten.txt: the signatures of the PyTorch operators that correspond to metatensor's.

    python tools/aten_schemas.py

The signatures are read from the installed PyTorch.
"""

import re
from pathlib import Path

import torch

import metatensor.nn  # noqa: F401
from metatensor._core.op import registry
from metatensor.overloads.names import EXTRA, aten_names

TARGET = Path(__file__).parent.parent / "metatensor/overloads/aten.txt"


def main():
    """Collect, sort and write the signatures."""
    known = {}
    for schema in torch._C._jit_get_all_schemas():
        text = str(schema)
        if schema.name.startswith("aten::") and not re.search(r"Dimname|\bt\[\]|\bt\b ", text):
            known.setdefault(schema.name[6:], []).append(text[6:].replace("SymInt", "int"))
    wanted = set(EXTRA)
    for op in registry.values():
        if "::" not in op.name:
            wanted.update(name for name in aten_names(op.name) if name in known)
    wanted |= {name + "_" for name in wanted if name + "_" in known}
    lines = sorted({line for name in wanted for line in known.get(name, ())})
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(len(lines), TARGET.stat().st_size)


if __name__ == "__main__":
    main()

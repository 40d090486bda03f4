"""Write ``docs/ops/<family>.md``, which documents every operator of a family, with examples.

    python tools/opdocs.py            # write the pages that changed
    python tools/opdocs.py --check    # exit 1 if a page does not match the declarations

The family of an operator is determined while its module is imported. Therefore the package must not be imported
before `families` is called. The examples run on the meta and cpu devices, so the cpu plugin must be installed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any

import opexamples

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "ops"
PREFIX = "metatensor.ops."
TITLES = {
    "windows_backward": "Backward of pooling, resizing, grid sampling and embedding",
}  # other families are titled by their names
NOTE = "The examples assume `import metatensor as mt`."
MARKS = {
    "VIEW": "a view of its input",
    "COMPOSITE": "implemented with other operators",
    "DATA": "its result depends on data, so it raises on meta",
    "RANDOM": "draws from a generator",
}


def families() -> dict[str, tuple[Any, list[str]]]:
    """Return ``{family: (module, names of its operators)}`` by observing the import of the package."""
    found: dict[str, tuple[Any, list[str]]] = {}
    seen: set[str] = set()
    load = ExtensionFileLoader.exec_module

    def registered() -> set[str]:
        core = sys.modules.get("metatensor._core.op")
        return set(getattr(core, "registry", ()))

    def watch(loader: Any, module: Any) -> None:
        seen.update(registered())
        load(loader, module)
        if module.__name__.startswith(PREFIX):
            new = registered() - seen  # operators of modules that this one imports are in `seen` already
            found[module.__name__.removeprefix(PREFIX)] = (module, sorted(new))
        seen.update(registered())

    ExtensionFileLoader.exec_module = watch  # type: ignore[method-assign, assignment]
    try:
        importlib.import_module("metatensor.ops")
    finally:
        ExtensionFileLoader.exec_module = load  # type: ignore[method-assign]
    return found


def entry(op: Any, family: str) -> str:
    """Return the section of one operator: its name, signatures, description, arguments and example."""
    docstrings = importlib.import_module("metatensor._core.docstrings")
    signatures = "\n".join(docstrings.signatures(op))
    parts = [f"## {op.name}", f"```text\n{signatures}\n```"]
    if op.short_doc:
        parts.append(op.short_doc)
    listed = [f"* {_names(e.name)} ({e.type}){f': {e.meaning}' if e.meaning else ''}" for e in docstrings.arguments(op)]
    if listed:
        parts.append("\n".join(listed))
    flags = importlib.import_module("metatensor._core.op").operator_flags
    notes = [words for flag, words in MARKS.items() if op.flags & getattr(flags, flag)]
    registry = importlib.import_module("metatensor._core.op").registry
    if op.name + "_" in registry:
        notes.insert(0, f"in place: `{op.name.rpartition('.')[2]}_`")
    if notes:
        parts.append(f"*{'; '.join(notes)}*")
    if has_example(op):
        parts.append(f"```python\n{opexamples.example(op, family)}\n```")
    return "\n\n".join(parts) + "\n"


def _names(name: str) -> str:
    return ", ".join(part if part == "..." else f"`{part}`" for part in name.split(", "))


def has_example(op: Any) -> bool:
    """Return True if the operator's page has an example: the operator is public and needs no special hardware."""
    return not op.__name__.startswith("_") and op.name not in opexamples.HARDWARE


def page(family: str, module: Any, names: list[str]) -> str:
    """Return the page of a family. In-place variants and aliases are listed under their operators."""
    registry = importlib.import_module("metatensor._core.op").registry
    ops = [registry[name] for name in names if registry[name].name == name and not registry[name].variant]
    intro = (module.__doc__ or "").strip()
    aliases = [(n, registry[n].name) for n in names if registry[n].name != n and not registry[n].variant]
    parts = [f"# {TITLES.get(family, family.capitalize().replace('_', ' '))}\n\n{intro}\n\n{NOTE}\n", *(entry(op, family) for op in ops)]
    if aliases:
        parts.append("## Other names\n\n" + "".join(f"* `{alias}` is `{name}`\n" for alias, name in aliases))
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page differs")
    args = parser.parse_args()
    pages = {PAGES / f"{family}.md": page(family, *rest) for family, rest in families().items() if rest[1]}
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    stale += [path for path in PAGES.glob("*.md") if path not in pages]
    for path in stale:
        if not args.check and path in pages:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pages[path])
        elif not args.check:
            path.unlink()
        print(f"{'differs from the declarations: ' if args.check else 'wrote '}{path.relative_to(ROOT)}")
    return int(args.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())

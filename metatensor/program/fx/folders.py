"""Writing graph modules as Python packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import metatensor as mt
from metatensor._core.dtype import spelling

__all__ = ["write"]


def write(module: Any, folder: Any, name: str) -> None:
    """Write a graph module as a package. See `GraphModule.to_folder`."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    if not name.isidentifier():
        raise ValueError(f"to_folder: {name!r} cannot be the name of a class")
    package = spelling()
    mt.save(module.state_dict(), root / "state_dict.pt")
    lines, objects = [], {}
    for child, one in module.named_children():
        objects[child] = one
        lines.append(f'        setattr(self, {child!r}, load(HERE / {f"{child}.pt"!r}, weights_only=False))')
        mt.save(one, root / f"{child}.pt")
    tensors = [(key, value, "Parameter") for key, value in module._parameters.items()]
    tensors += [(key, value, "buffer") for key, value in module._buffers.items()]
    for key, value, kind in tensors:
        if value is None:
            continue
        made = f"torch.empty({list(value.shape)!r}, dtype=torch.{value.dtype.name})"
        if kind == "Parameter":
            lines.append(f"        setattr(self, {key!r}, torch.nn.Parameter({made}, requires_grad={value.requires_grad}))")
        else:
            lines.append(f"        self.register_buffer({key!r}, {made}, persistent={key not in module._non_persistent_buffers_set})")
            if key in module._non_persistent_buffers_set:
                mt.save(value, root / f"{key}.pt")
                lines.append(f"        self.{key} = load(HERE / {f'{key}.pt'!r})")
    written = module.graph.python_code()
    needed = _globals(written.globals, root)
    body = "".join(f"    {line}\n" for line in written.src.splitlines())
    (root / "module.py").write_text(
        f'''"""The code of a graph."""

from pathlib import Path

import {package}
{"import " + package + " as torch" if package != "torch" else ""}
from {package} import load
{needed}
HERE = Path(__file__).parent


class {name}(torch.nn.Module):
    def __init__(self):
        super().__init__()
{chr(10).join(lines) or "        pass"}
        self.load_state_dict(load(HERE / "state_dict.pt", weights_only=True), strict=False)

{body}''',
        encoding="utf-8",
    )
    (root / "__init__.py").write_text("from .module import *\n", encoding="utf-8")


def _globals(names: dict[str, Any], root: Path) -> str:
    """Return statements that define the names that the code uses."""
    import types

    lines = []
    for name, value in names.items():
        if isinstance(value, types.ModuleType):
            lines += [f"import {value.__name__}" if value.__name__ == name else f"import {value.__name__} as {name}"]
        else:
            mt.save(value, root / f"{name}.pt")
            lines += [f"{name} = load(Path(__file__).parent / {f'{name}.pt'!r}, weights_only=False)"]
    return "\n".join(lines) + ("\n" if lines else "")

"""docs/writing-a-device.md: its excerpts are the disk plugin's, and its code runs."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "writing-a-device.md").read_text()
BLOCKS = re.findall(r"```(python|toml)\n(.*?)```", PAGE, re.S)


EXCERPTS = [text for _, text in BLOCKS if text.startswith("# plugins/")]


@pytest.mark.parametrize("block", EXCERPTS, ids=lambda text: text.splitlines()[1].strip())
def test_excerpts_are_the_files(block):
    head, _, text = block.partition("\n")
    assert text.rstrip("\n") in (ROOT / head.removeprefix("# ")).read_text()


def test_the_template_is_short():
    assert len((ROOT / "plugins/disk/metatensor_disk.py").read_text().splitlines()) < 80


def test_methods_of_the_base_class_are_described():
    from metatensor.devices import DeviceBackend

    assert all(f"| `{name}(" in PAGE for name in ("allocate", "copy", "to_host", "from_host", "kernel"))
    assert all(hasattr(DeviceBackend, name) for name in re.findall(r"^\| `(\w+)\(", PAGE, re.M))


def test_arguments_of_the_array_backend_are_described():
    pytest.importorskip("metatensor_cpu")
    import inspect

    from metatensor.devices.array_kit import ArrayBackend

    names = [p.name for p in inspect.signature(ArrayBackend.__init__).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.M) == names


def test_the_kernel_example_runs():
    import metatensor as mt
    from metatensor import plugins
    from metatensor.testing.values import empty, from_values, to_values

    code = next(text for _, text in BLOCKS if "TABLE = KernelTable" in text)
    scope = {}
    exec(code, scope)
    backend = type(plugins.backend("cpu")).__mro__[1]("cpu", np, table=scope["TABLE"])
    out = empty("cpu", (2, 3), "float32")
    backend.kernel("cumsum")(out, from_values("cpu", np.ones((2, 3))), 1, None)
    assert to_values(out).tolist() == [[1, 2, 3]] * 2
    assert any("Tensor input, int dim, *, dtype" in text for text in mt.cumsum.schemas)

"""Published files, if ``make test-published`` or `published.py` has downloaded them."""

import pytest

import metatensor as mt

from .published import FOLDER, OBJECTS, agree, files, refused

pytest.importorskip("numpy")
FILES = files()
if not FILES:
    pytest.skip("no published checkpoints here: `make test-published` downloads them", allow_module_level=True)
if "cpu" not in mt.plugins.device_types():
    pytest.skip("the cpu plugin is not installed", allow_module_level=True)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_as_the_formats_own_library_loads_it(path):
    if path.name in OBJECTS:
        assert OBJECTS[path.name] in refused(path)
        return
    try:
        agree(path)
    except ImportError as error:
        pytest.skip(f"{error.name} is not installed")

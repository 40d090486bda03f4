"""`install`: the meaning of ``import torch``, in a new process."""

import textwrap

import pytest

from torch_api.process import run

pytestmark = pytest.mark.slow


def test_import_torch():
    out = run("""
        import metatensor as mt
        from metatensor import torch_api
        torch_api.install()
        import torch
        import torch.nn as nn, torch.nn.functional as F
        import torch.nn.modules.batchnorm, torch.utils.checkpoint
        from torch import Tensor, nn as again
        from torch.nn import Linear
        assert torch.torch is torch and torch.nn is nn is again is mt.nn and nn.functional is F
        assert torch.nn.modules.batchnorm.BatchNorm2d is mt.nn.BatchNorm2d
        assert Tensor is mt.Tensor and Linear is mt.nn.Linear and torch.float32 is mt.float32
        print(torch.float32, torch.Size([2, 3]), torch.strided, torch.contiguous_format, torch.empty(1, device="meta").type())
    """)
    assert out == "torch.float32 torch.Size([2, 3]) torch.strided torch.contiguous_format torch.meta.FloatTensor"


def test_the_distribution_and_the_version():
    out = run("""
        import importlib.metadata, importlib.util
        from metatensor import torch_api
        torch_api.install()
        assert importlib.util.find_spec("torch") is not None and importlib.util.find_spec("torch.foo") is None
        import torch
        assert importlib.metadata.version("torch") == torch.__version__ == torch.version.__version__ == torch_api.TORCH_VERSION
        assert importlib.metadata.packages_distributions()["torch"][0] == "torch"
        assert torch.__version__ >= "2.12" and torch.__version__ < (3, 0) and not torch.__version__ > "2.13.0"
        assert str(torch.__version__).startswith("2.13.0")
        assert torch.version.cuda is None and torch.version.hip is None
        print(importlib.metadata.distribution("torch").metadata["Name"])
    """)
    assert out == "torch"


def test_what_is_not_there():
    run("""
        from metatensor import torch_api
        torch_api.install()
        import torch
        for name in ("no_such_function", "analysis", "DispatchMode", "add_", "_core"):
            assert not hasattr(torch, name), name
        try:
            torch.no_such_function
        except AttributeError as error:
            assert "no_such_function" in str(error)
        for statement in ("from torch import no_such", "import torch.no_such", "import torch.nn.no_such", "import torch.jit.annotations.x"):
            try:
                exec(statement)
            except ImportError:
                pass
            else:
                raise AssertionError(statement)
    """)


def test_uninstall():
    out = run("""
        import sys
        import metatensor as mt
        from metatensor import torch_api
        before = set(sys.modules)
        first = torch_api.install()
        assert torch_api.is_installed()
        with torch_api.install():
            import torch.nn
        assert torch_api.is_installed()          # not this block's to undo
        torch_api.uninstall()
        torch_api.uninstall()
        assert not torch_api.is_installed()
        assert not [name for name in sys.modules if name == "torch" or name.startswith("torch.")]
        print(mt.float32)
        with torch_api.install():
            import torch as again
            print(again.float32)
        assert "torch" not in sys.modules
    """)
    assert out.split() == ["metatensor.float32", "torch.float32"]


def test_a_torch_that_is_imported_is_refused():
    run("""
        import sys, types
        from metatensor import torch_api
        sys.modules["torch"] = types.ModuleType("torch")
        try:
            torch_api.install()
        except RuntimeError as error:
            assert "already imported" in str(error)
        else:
            raise AssertionError
        assert not torch_api.is_installed()
    """)


def test_a_torch_that_is_installed_is_hidden(tmp_path):
    (tmp_path / "torch.py").write_text("genuine = True\n")
    run(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from metatensor import torch_api
        with torch_api.install():
            import torch
            assert not hasattr(torch, "genuine")
        import torch
        assert torch.genuine
    """)


def test_it_costs_little():
    """This tests what is imported, not the time: no NumPy, no plugin, none of the large modules."""
    run("""
        import sys
        from metatensor import torch_api
        torch_api.install()
        import torch
        for name in ("numpy", "pluggy", "click", "metatensor.nn", "metatensor.distributed"):
            assert name not in sys.modules, name
    """)


def test_errors_in_a_model_name_module_and_line(tmp_path):
    model = tmp_path / "net.py"
    model.write_text(textwrap.dedent("""
        import torch
        from torch import nn

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.proj = nn.Linear(4, 5)

            def forward(self, x):
                return self.proj(x.sum(0))

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Identity(), Block()])

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x
    """))
    out = run(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from metatensor import torch_api
        torch_api.install()
        import torch, net
        with torch.device("meta"):
            model = net.Net()
            try:
                model(torch.empty(2, 3))
            except RuntimeError as error:
                print(error.__notes__[0])
    """)
    assert out == f"in module layers.1.proj (Linear) of Net, at {model}:11: return self.proj(x.sum(0))"


def test_values_on_cpu_inside_a_meta_context():
    out = run("""
        from metatensor import torch_api
        torch_api.install()
        import torch
        with torch.device("meta"):
            print([x.item() for x in torch.linspace(0, 0.5, 3, device="cpu")], torch.linspace(0, 1, 3).device)
    """)
    assert out == "[0.0, 0.25, 0.5] meta"

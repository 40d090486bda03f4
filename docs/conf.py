"""Sphinx settings. Pages are written in Markdown. The `reference` pages are generated from docstrings."""

import importlib
import inspect
import sys
from pathlib import Path

from sphinx.ext.napoleon import NumpyDocstring
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from metatensor._core.op import Op, OpMethod, OpProperty
from metatensor._version import __version__

project = "metatensor"
copyright = "2026, the metatensor contributors"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"metatensor {release}"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
# Pages link to files in the repository that are not pages.
suppress_warnings = ["myst.xref_missing"]

autodoc_default_options = {"members": True}
autodoc_member_order = "alphabetical"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_preprocess_types = True
# Type names in docstrings that would be ambiguous, and the objects to which they refer.
napoleon_type_aliases = {name: f":py:obj:`~metatensor.{path}`" for name, path in {
    "CheckpointError": "checkpoint.CheckpointError", "Module": "nn.Module", "Optimizer": "optim.Optimizer", "Tensor": "Tensor",
    "device": "device", "dtype": "dtype", "module": "nn.Module",
}.items()}  # fmt: skip
default_role = "py:obj"  # `name` links to the object documented under that name, or is shown as code if there is none


def skip_operators(app, what, name, obj, skip, options):
    """Skip operators, which are on the operator pages, and the attribute `cls_to_become` of lazy layers."""
    return True if isinstance(obj, (Op, OpMethod, OpProperty)) or name == "cls_to_become" else None


class PublicClass(SphinxDirective):
    """Document a class under its public name, even if ``__name__`` differs. autodoc would only show it as an alias."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        module, _, attribute = name.rpartition(".")
        cls = getattr(importlib.import_module(module), attribute)
        lines = self.described("class", name, cls)
        for key, member in sorted(vars(cls).items()):
            if not key.startswith("_") and member.__doc__ and (callable(member) or inspect.isdatadescriptor(member)):
                found = self.described("method" if callable(member) else "property", key, member)
                lines += [f"   {line}" for line in found]
        return self.parse_text_to_nodes("\n".join(lines))

    def described(self, kind, name, value):
        try:
            parameters = list(inspect.signature(value).parameters.values())
            signature = str(inspect.Signature([p.replace(annotation=p.empty) for p in parameters[kind == "method":]]))
        except (TypeError, ValueError):
            signature = ""
        text = NumpyDocstring(inspect.getdoc(value) or "", self.config)
        header = f".. py:{kind}:: {name}" + signature * (kind != "property")
        return [header, "", *(f"   {line}" for line in text.lines()), ""]


def setup(app):
    app.connect("autodoc-skip-member", skip_operators)
    app.add_directive("publicclass", PublicClass)

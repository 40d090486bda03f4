"""The page as a file: all in one, with the libraries that are in the repository, and their licences."""

import base64
import gzip
import hashlib
import re
from importlib.resources import files

import metatensor as mt
from metatensor.analysis import graph


def test_one_file(program, tmp_path):
    program.to_html(tmp_path / "graph.html")
    html = (tmp_path / "graph.html").read_text(encoding="utf-8")
    packed = re.search(r'<script type="text/plain" id="libraries">(.*?)</script>', html, re.DOTALL).group(1)
    script = gzip.decompress(base64.b64decode(packed)).decode()
    assert script.count("Permission is hereby granted") >= 2 and "sourceMappingURL" not in script
    rest = html.replace(packed, "")
    assert not re.search(r"https?://", rest) and "@import" not in rest and "url(" not in rest
    assert not re.search(r"\b(?:src|href)\s*=\s*[\"'](?!#|data:)", rest)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html).group(1)
    assert "default-src 'none'" in policy and "connect-src" not in policy and "unsafe-eval" not in policy


def test_libraries_are_those_of_the_table():
    vendor = files(graph).joinpath("vendor")
    rows = re.findall(r"^\| (\S+) \|.*\| ([0-9a-f]{64}) \|$", vendor.joinpath("README.md").read_text(encoding="utf-8"), re.M)
    assert [name for name, _ in rows] == ["cytoscape.min.js", "dagre.min.js"]
    for name, digest in rows:
        assert hashlib.sha256(vendor.joinpath(name).read_bytes()).hexdigest() == digest


def test_saved_programs_draw_alike(program, tmp_path):
    program.save(tmp_path / "model.mtp")
    loaded, own = graph.contents(mt.program.load(tmp_path / "model.mtp")), graph.contents(program)
    for part in ("tree", "operators", "inputs", "held"):
        assert loaded[part] == own[part]
    assert [row[7:] for row in loaded["calls"]] == [row[7:] for row in own["calls"]]


def test_notebooks(program):
    html = program._repr_html_()
    assert html.startswith("<iframe") and html.endswith("</iframe>") and html.count("<") == 2 and 'sandbox="allow-scripts"' in html

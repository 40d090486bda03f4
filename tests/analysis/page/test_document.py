"""The page as a file: all in one, nothing from the network, and a clear error without Plotly."""

import base64
import gzip
import json
import re
import sys

import pytest

from metatensor.analysis import page
from metatensor.analysis.page import MissingPlotly, document


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL).group(1))


def test_without_plotly(training, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    page.plotly.cache_clear()
    with pytest.raises(MissingPlotly, match=r"pip install 'metatensor-device\[report\]'"):
        training.to_html(tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_one_file(training, tmp_path):
    pytest.importorskip("plotly")
    training.to_html(tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    packed = re.search(r'<script type="text/plain" id="plotly">(.*?)</script>', html, re.DOTALL).group(1)
    assert "plotly.js" in gzip.decompress(base64.b64decode(packed)).decode()[:200]
    rest = html.replace(packed, "")
    assert not re.search(r"https?://", re.sub(r'(?s)<script type="application/json".*?</script>', "", rest))
    assert not re.search(r"\b(?:src|href)\s*=\s*[\"'](?!#|data:)", rest) and "@import" not in rest and "url(" not in rest
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html).group(1)
    assert "default-src 'none'" in policy and "form-action 'none'" in policy and "connect-src" not in policy
    assert data_of(html) == json.loads(training.to_json())


def test_a_report_cannot_end_the_script(training, monkeypatch):
    pytest.importorskip("plotly")
    found = training.to_dict()
    found["model"] = "</script><script>alert(1)</script>{{plotly}}"
    html = document(found)
    assert "<script>alert" not in html and data_of(html)["model"] == found["model"]
    assert html.count("{{plotly}}") == 3  # the title, the heading and the data: figures are never taken for parts


def test_profiles_and_estimates_without_timeline(inference, tmp_path):
    pytest.importorskip("plotly")
    inference.profile.to_html(tmp_path / "profile.html")
    assert data_of((tmp_path / "profile.html").read_text(encoding="utf-8"))["kind"] == "profile"


def test_notebooks(training, inference):
    for found in (training, inference, training.profile):
        html = found._repr_html_()
        assert html.startswith("<") and html.count("<table") == html.count("</table>") > 0
        assert "not included" in html

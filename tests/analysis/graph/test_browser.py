"""The graph in a real browser: no errors, no requests, and everything works by pointer, by touch and by keyboard."""

import time

import pytest

import metatensor as mt
from browsing import PHONE, opened, until
from metatensor import nn

pytestmark = pytest.mark.slow   # about a second each, spent in the browser

WIDE = {"viewport": {"width": 1300, "height": 850}}


@pytest.fixture(scope="module")
def files(browser, program, training, tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    program.to_html(folder / "model.html")
    training.to_html(folder / "step.html")
    return folder


@pytest.fixture(scope="module")
def opened_page(browser, files):
    with opened(browser, files / "model.html", **WIDE) as found:
        yield found


@pytest.fixture
def page(opened_page):
    opened_page.fill("#search", "")
    opened_page.evaluate("select(null); chooseMode(0)")
    opened_page.click("#fold-all")
    return opened_page


def shown(page):
    """The titles of what is drawn at the moment."""
    return page.evaluate("view.shown.nodes.map((node) => node.title)")


def place(page, title):
    """Bring a node into view, and return where its title is on the screen."""
    return page.evaluate("""(title) => {
        const node = view.shown.nodes.find((one) => one.title === title);
        center(node);
        const box = view.shown.boxes.get(node.id), zoom = view.cy.zoom(), pan = view.cy.pan();
        const frame = document.getElementById("graph").getBoundingClientRect();
        return [frame.x + box.x * zoom + pan.x, frame.y + (box.y - box.height / 2 + 12) * zoom + pan.y];
    }""", title)  # fmt: skip


def selected(page):
    return page.evaluate("view.selected && view.selected.title")


def test_first_the_outermost_groups(page):
    assert shown(page) == ["x", "mask", "embedding", "layers", "linear", "output"]
    assert page.evaluate("view.cy.nodes().filter((one) => one.hasClass('group')).length") == 1
    assert "FLOPs" in page.locator("#facts").inner_text() and page.locator("#panel h2").inner_text() == "Model"


def test_click_unfolds_and_folds(page):
    page.mouse.click(*place(page, "layers"))
    assert shown(page).count("layers.0") == 1 and page.locator("#panel h2").inner_text() == "layers"
    page.mouse.click(*place(page, "layers.0"))
    page.mouse.click(*place(page, "attention"))
    assert {"softmax", "matmul", "chunk"} <= set(shown(page))
    assert page.locator("#panel .path").inner_text() == "layers › layers.0"
    page.mouse.click(*place(page, "softmax"))
    text = page.locator("#panel").inner_text()
    assert selected(page) == "softmax" and "layers.0.attention" in text and "float32[2, 8, 8]" in text
    assert "conftest.py:" in text and "softmax(-1) @ v" in text and "bytes written" in text
    page.locator("#panel button", has_text="matmul").click()  # what uses it
    assert selected(page) == "matmul"
    page.mouse.click(*place(page, "layers"))
    assert "layers.0" not in shown(page)


def test_lines_have_shapes_and_join_everything(page):
    labels = page.evaluate("view.cy.edges().map((edge) => edge.data('label'))")
    assert "2×8×16" in labels and "int64 2×8" in labels and "8×8" in labels
    page.click("#unfold-all")
    assert page.locator("#count").inner_text().startswith(f"{page.evaluate('graph.leaves.length'):,} of")
    ends = page.evaluate("""[...new Set(view.cy.edges().map((edge) => [edge.source().id(), edge.target().id()]).flat())]""")
    assert set(page.evaluate("graph.leaves.map((leaf) => leaf.id)")) <= set(ends)


def test_nothing_overlaps(page):
    page.click("#unfold-all")
    assert page.evaluate("""(() => {
        const boxes = [...view.shown.boxes.values()].filter((box) => box.node.kind !== "port"), trouble = [];
        const apart = (a, b) => Math.abs(a.x - b.x) >= (a.width + b.width) / 2 - 1 || Math.abs(a.y - b.y) >= (a.height + b.height) / 2 - 1;
        for (const a of boxes) for (const b of boxes) {
            if (a === b || a.node.chain.includes(b.node) || b.node.chain.includes(a.node)) continue;
            if (!apart(a, b)) trouble.push([a.node.title, b.node.title]);
        }
        for (const a of boxes) for (const group of a.node.chain.slice(1, -1)) {
            const b = view.shown.boxes.get(group.id);
            const within = Math.abs(a.x - b.x) <= (b.width - a.width) / 2 && Math.abs(a.y - b.y) <= (b.height - a.height) / 2 + 1;
            if (!within) trouble.push([a.node.title, group.title]);
        }
        return trouble;
    })()""") == []  # fmt: skip
    upward = page.evaluate("placeAll().edges.filter(({ edge, points }) => !edge.faint && points[0][1] > points.at(-1)[1] + 1).length")
    assert upward == 0  # data flow downward


def test_every_line_ends_where_its_nodes_are(page):
    page.click("#unfold-all")
    far = page.evaluate("""view.cy.edges(":visible").filter((edge) => {
        const near = (end, node) => ["x", "y"].every((axis) =>
            Math.abs(end[axis] - node.position(axis)) <= (axis === "x" ? node.width() : node.height()) / 2 + 2);
        return !near(edge.sourceEndpoint(), edge.source()) || !near(edge.targetEndpoint(), edge.target());
    }).length""")
    assert far == 0


def test_search(page):
    page.fill("#search", "layers.7 softmax")
    assert page.locator("#count").inner_text() == "1 found" and page.locator("#results li").count() == 1
    assert page.evaluate("view.cy.elements('.found').map((one) => one.data('label'))") == ["▸ layers"]  # the group around it
    page.press("#search", "Enter")
    assert selected(page) == "softmax" and "layers.7.attention" in page.locator("#panel").inner_text()
    assert "layers.7" in shown(page)
    x, y = place(page, "softmax")
    assert 0 < x < 1000 and 0 < y < 850
    page.fill("#search", "softmax")
    assert page.locator("#count").inner_text() == "12 found"
    page.press("#search", "Enter")
    page.press("#search", "Enter")
    assert "layers.1.attention" in page.locator("#panel").inner_text()
    page.fill("#search", "no such thing")
    assert page.locator("#count").inner_text() == "0 found" and page.locator("#results li").count() == 0
    page.press("#search", "Escape")
    assert page.input_value("#search") == "" and page.locator("#results").is_hidden()


def test_colors(page):
    def fill():
        return page.evaluate("Object.fromEntries(view.shown.nodes.map((node) => [node.title, view.cy.getElementById(node.id).data('bg')]))")

    kinds = fill()
    page.locator("#modes label", has_text="FLOPs").click()
    flops = fill()
    assert flops["layers"] == page.evaluate("color('heat-high')")
    assert flops["embedding"] == page.evaluate("color('back')") != kinds["embedding"]
    assert page.locator("#legend").inner_text().startswith("FLOPs")
    page.locator("#modes label", has_text="Memory").click()
    assert fill()["embedding"] not in (flops["embedding"], kinds["embedding"])
    page.locator("#modes label", has_text="Operators").click()
    assert fill() == kinds and "products" in page.locator("#legend").inner_text()


def test_keyboard(page):
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.focus("#graph")
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
        if selected(page) == "layers":
            break
    assert selected(page) == "layers"
    page.keyboard.press("Enter")
    assert "layers.11" in shown(page)
    page.keyboard.press("ArrowDown")
    assert selected(page) == "layers.0"
    page.keyboard.press("ArrowDown")
    assert selected(page) == "layers.1" and "layers.1: folded" in page.locator("#said").text_content()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    assert selected(page) == "layer_norm"
    page.keyboard.press("ArrowUp")
    assert selected(page) == "layers.1"
    page.keyboard.press("Escape")
    assert selected(page) == "layers"
    page.keyboard.press("End")
    assert selected(page) == "output"
    page.keyboard.press("ArrowUp")
    assert selected(page) == "linear"
    zoom = page.evaluate("view.cy.zoom()")
    page.keyboard.press("+")
    assert page.evaluate("view.cy.zoom()") > zoom
    page.keyboard.press("c")
    assert page.evaluate("modes[view.mode].id") == "made"
    page.keyboard.press("Escape")
    assert selected(page) is None


def test_all_nodes_are_reached_by_keys(page):
    page.focus("#graph")
    page.keyboard.press("Home")
    seen = set()
    for _ in range(400):
        node = page.evaluate("(({ title, id, kind, open }) => ({ title, id, folded: kind === 'group' && !open }))(view.selected)")
        if node["title"] == "output":
            break
        if node["folded"] and len(seen) < 60:
            page.keyboard.press("Enter")
        seen.add(node["id"])
        page.keyboard.press("ArrowDown")
    assert node["title"] == "output" and len(seen) > 20


def test_hover(page):
    x, y = place(page, "embedding")
    page.mouse.move(x, y)
    page.mouse.move(x + 2, y + 2)
    until(page, "!document.getElementById('tip').hidden")
    assert "nn.functional.embedding in embed: float32[2, 8, 16]" in page.locator("#tip").inner_text()
    page.mouse.move(5, 400)
    until(page, "document.getElementById('tip').hidden")


def test_what_is_unfolded_keeps_its_place(page):
    before = place(page, "layers")
    page.mouse.click(*before)
    assert abs(place(page, "layers")[1] - before[1]) < 2


def test_lines_of_what_is_used_widely_are_drawn_on_request(page):
    page.mouse.click(*place(page, "layers"))
    faint = page.evaluate("view.cy.edges('.faint').length")
    assert faint == 11  # of the mask, but for the first layer
    assert page.evaluate("view.cy.edges('.faint').filter((edge) => edge.visible()).length") == 0
    page.mouse.click(*place(page, "layers.5"))
    assert page.evaluate("view.cy.edges('.faint').filter((edge) => edge.visible()).length") == 1


def test_dark(browser, files):
    with opened(browser, files / "model.html", color_scheme="dark", **WIDE) as page:
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
        assert page.evaluate("view.cy.getElementById(graph.inputs[0].id).data('bg')") == "#14171b"
        page.emulate_media(color_scheme="light")
        until(page, "view.cy.getElementById(graph.inputs[0].id).data('bg') === '#ffffff'")


def test_phone(browser, files):
    with opened(browser, files / "model.html", **PHONE) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        graph, panel = page.locator("#graph").bounding_box(), page.locator("#panel").bounding_box()
        assert graph["height"] > 250 and graph["width"] == 375 and panel["y"] >= graph["y"] + graph["height"] - 1
        page.locator("#fold-all").tap()
        page.touchscreen.tap(*place(page, "layers"))
        until(page, "view.selected !== null")
        assert selected(page) == "layers" and "layers.0" in shown(page)
        assert page.locator("#panel h2").inner_text() == "layers"


def test_print(browser, files):
    with opened(browser, files / "model.html", color_scheme="dark", **WIDE) as page:
        pdf = page.pdf()
        assert len(pdf) > 20_000
        page.evaluate("drawPrint()")
        size = page.evaluate("""(async () => {
            const image = document.querySelector("#print img");
            await image.decode();
            return [image.naturalWidth, image.naturalHeight];
        })()""")
        assert size[0] > 200 and size[1] > 400
        assert page.evaluate("view.cy.getElementById(graph.inputs[0].id).data('bg')") == "#14171b"  # the page is dark again


def test_training_step(browser, files):
    with opened(browser, files / "step.html", **WIDE) as page:
        assert {"forward", "backward", "after backward"} <= set(shown(page))
        labels = page.evaluate("view.cy.edges().map((edge) => edge.data('label'))")
        assert any(label.endswith("tensors") for label in labels)
        page.click("#unfold-all")
        page.fill("#search", "addcdiv_")
        assert page.locator("#count").inner_text() != "0 found"
        page.press("#search", "Enter")
        assert "Writes to".lower() in page.locator("#panel").inner_text().lower()


def test_notebook(browser, program, tmp_path):
    (tmp_path / "cell.html").write_text(f"<!doctype html><link rel=icon href='data:,'>{program._repr_html_()}", encoding="utf-8")
    page = browser.new_page()
    trouble = []
    page.on("console", lambda message: trouble.append(message.text))
    page.goto((tmp_path / "cell.html").as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for(timeout=60_000)
    assert frame.locator("#panel h2").inner_text() == "Model" and trouble == []
    page.close()


def test_unknown_figures(browser, tmp_path):
    mt.program.trace(lambda x: x.nonzero().sum() + 1, mt.ones(3, device="cpu")).to_html(tmp_path / "data.html")
    page = browser.new_page()
    page.goto((tmp_path / "data.html").as_uri())
    page.wait_for_selector("html[data-ready]", timeout=60_000)
    assert "unknown: the program does not run on meta" in page.locator("#trouble").inner_text()
    page.locator("#modes label", has_text="FLOPs").click()
    assert "unknown" in page.locator("#legend").inner_text() and "unknown FLOPs" in page.locator("#facts").inner_text()
    page.close()


SMALL = {
    "nothing": lambda: mt.program.trace(lambda: None),
    "what was given": lambda: mt.program.trace(lambda x: x, mt.empty(2, device="meta")),
    "no inputs": lambda: mt.program.trace(lambda: mt.ones(2, device="meta") + 1),
    "no output": lambda: mt.program.trace(lambda x: [x.add_(1), None][1], mt.empty(2, device="meta")),
    "a list": lambda: mt.program.trace(lambda xs: {"sum": sum(xs), "all": xs}, [mt.empty(3, device="meta") for _ in range(20)]),
    "numbers": lambda: mt.program.trace(lambda x: (x * x.sum().item()).tolist(), mt.ones(2, device="cpu")),
    "<b>&amp;": lambda: mt.program.trace(mt.nn.Sequential(mt.nn.Sequential(mt.nn.Flatten())), mt.empty(2, 3, device="meta")),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_programs(browser, tmp_path, name):
    program = SMALL[name]()
    program.name = name
    program.to_html(tmp_path / "small.html")
    with opened(browser, tmp_path / "small.html", **WIDE) as page:
        assert page.locator("h1").inner_text() == name
        page.click("#unfold-all")
        for key in ("Home", "ArrowDown", "End", "ArrowUp", "Enter", "c", "0"):
            page.focus("#graph")
            page.keyboard.press(key)
        page.click("#fold-all")


def test_ten_thousand_calls(browser, tmp_path):
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8)) for _ in range(5)])

        def forward(self, x, mask):
            for part in self.parts:
                x = x + part(x) * mask
            return x

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Layer() for _ in range(500)])

        def forward(self, x, mask):
            for layer in self.layers:
                x = layer(x, mask)
            return x

    with mt.device("meta"), mt.no_grad():
        program = mt.program.trace(Deep(), mt.empty(4, 8), mt.empty(4, 8))
    assert len(program) > 10_000
    program.to_html(tmp_path / "deep.html")
    assert (tmp_path / "deep.html").stat().st_size < 6e6
    start = time.monotonic()
    with opened(browser, tmp_path / "deep.html", **WIDE) as page:
        page.screenshot()
        assert time.monotonic() - start < 20  # 1.5 s on an idle machine
        start = time.monotonic()
        page.mouse.click(*place(page, "layers"))
        assert len(shown(page)) < 60
        page.fill("#search", "layers.321 linear")
        assert page.locator("#count").inner_text() == "5 found"
        page.press("#search", "Enter")
        assert "layers.321" in shown(page) and selected(page) == "linear"
        page.screenshot()
        page.click("#unfold-all")  # as much as is quick to draw
        assert "groups stay folded" in page.locator("#count").inner_text() and len(shown(page)) <= 3000
        page.screenshot()
        page.click("#fold-all")
        assert time.monotonic() - start < 60  # 5 s on an idle machine


def test_a_training_step_that_does_not_fit_opens_with_folded_passes(browser, tmp_path):
    with mt.device("meta"):
        model, x = nn.Sequential(nn.Embedding(100, 16), nn.Linear(16, 100)), mt.zeros(2, 7, dtype=mt.int64)
        optimizer = mt.optim.AdamW(model.parameters())

    def step(x):
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step(x)
    mt.program.trace(step, x).to_html(tmp_path / "step.html")
    with opened(browser, tmp_path / "step.html", **WIDE) as page:
        assert {"forward", "backward", "after backward"} <= set(shown(page))
        assert page.evaluate("graph.leaves.length") <= 60  # otherwise it never opens unfolded
        assert not page.evaluate("view.shown.nodes.some((node) => isOpen(node))")

"""Compare all sources with those of an installed PyTorch: no function and no sentence may be the same."""

import ast
import collections
import difflib
import importlib.util
import pathlib
import re
import textwrap

import pytest

import metatensor

OURS = pathlib.Path(metatensor.__file__).parent
SKIPPED = ("testing/_internal", "_inductor", "onnx/_internal", "_dynamo", "_functorch/_aot", "_export", "_vendor", "utils/hipify")
"""PyTorch's compilers, tests and build tools, which have no counterpart in metatensor."""

TOKENS, ALIKE, WORDS = 40, 0.85, 7

NO_OTHER_FORM: dict[str, str] = {}
"""Functions that may be similar, as "file:qualified name", with the reason why they have no other form."""

TOKEN = re.compile(r"\w+|[^\w\s]")
WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
SIGN = re.compile(r"[^\w\s.,;:'\"-]+")
DEF = re.compile(r"^([ \t]*)def (\w+)", re.M)
OUTSIDE = re.compile(r"\. ?([a-zA-Z_]\w*)|\b([a-zA-Z_]\w*) ?\(")
STRING = re.compile(r'("""|\'\'\')(.*?)\1', re.S)
COMMENT = re.compile(r"^[^\n\"'#]*#:? ?(.*)$", re.M)
# Parts of docstrings that are not prose: examples, code in backquotes, links, names, operators and parentheses.
CODE = re.compile(r"^\s*(?:>>>|\.\.\. ).*$|``.*?``|`.*?`|https?://\S+|\w+_\w*|type: ignore\S*", re.M)


def theirs():
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None or pathlib.Path(spec.origin).is_relative_to(OURS):
        pytest.skip("PyTorch is not installed")
    return pathlib.Path(spec.origin).parent


def sources(root, *endings):
    for path in sorted(root.rglob("*.*")):
        name = path.relative_to(root).as_posix()
        if path.suffix in endings and not (root is not OURS and name.startswith(SKIPPED)):
            yield name, path.read_text(errors="replace")


class Anonymous(ast.NodeTransformer):
    """Removes what is not compared: names of locals, texts of messages, annotations, and raised exceptions."""

    def __init__(self, function):
        nodes = list(ast.walk(function))
        names = [n.arg for n in nodes if isinstance(n, ast.arg)]
        self.local = {*names, *(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))}
        self.numbers = {}

    def number(self, name):
        return self.numbers.setdefault(name, f"local{len(self.numbers)}")

    def visit_Name(self, node):
        module = "torch" if node.id in ("mt", "metatensor") else node.id
        return ast.Name(self.number(node.id) if node.id in self.local else module, node.ctx)

    def visit_arg(self, node):
        return ast.arg(self.number(node.arg))

    def visit_AnnAssign(self, node):
        return ast.Assign([self.visit(node.target)], self.visit(node.value) if node.value else ast.Constant(None), lineno=0)

    def visit_Raise(self, node):
        return ast.Raise(ast.Name("error"))

    def visit_Constant(self, node):
        return ast.Constant("text") if isinstance(node.value, str) and len(node.value) > 20 else node

    def visit_JoinedStr(self, node):
        return ast.Constant("text")


def tokens(function):
    body = function.body[ast.get_docstring(function) is not None :]
    anonymous = Anonymous(function)
    text = "\n".join(ast.unparse(ast.fix_missing_locations(anonymous.visit(statement))) for statement in body)
    return TOKEN.findall(text)


def methods(tree, prefix=""):
    """Yield all functions of a module and its classes, with qualified names."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from methods(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node


def chunks(text):
    """Yield the source of each function in a file, found by indentation, which is faster than parsing."""
    for start in DEF.finditer(text):
        end = re.compile(rf"^[ \t]{{0,{len(start[1])}}}[^\s)]", re.M).search(text, start.end())
        yield text[start.start() : end.start() if end else len(text)]


def outside_names(text):
    """Return the names in a function that renaming its locals does not change: attributes and called functions."""
    return collections.Counter(a or b for a, b in OUTSIDE.findall(text))


def alike(ours, torch):
    """Return pairs of functions of metatensor and PyTorch whose similarity is at least `ALIKE`."""
    by_name = collections.defaultdict(list)
    for i, (_, _, names) in enumerate(ours):
        for name, times in names.items():
            by_name[name].append((i, times))
    enough = [0.8 * sum(names.values()) for _, _, names in ours]
    found = {}
    for file, text in sources(torch, ".py"):
        for chunk in chunks(STRING.sub('"text"', text)):
            if len(chunk) < 2 * TOKENS:
                continue
            shared = collections.defaultdict(int)
            for name, times in outside_names(chunk).items():
                for i, mine in by_name.get(name, ()):
                    shared[i] += min(times, mine)
            near = [i for i, count in shared.items() if count >= enough[i]]
            if near:
                size = len(TOKEN.findall(chunk))
                near = [i for i in near if 0.7 * len(ours[i][1]) < size < 3 * len(ours[i][1]) + 40]
            if not near:
                continue
            try:
                other = tokens(ast.parse(textwrap.dedent(chunk)).body[0])
            except (SyntaxError, IndexError):
                continue
            for i in near:
                match = difflib.SequenceMatcher(None, ours[i][1], other, autojunk=False)
                if min(match.real_quick_ratio(), match.quick_ratio()) >= ALIKE and match.ratio() >= ALIKE:
                    found.setdefault(ours[i][0], f"{match.ratio():.2f} {file} {chunk.split('(')[0].split()[-1]}")
    return found


def own_functions():
    for file, text in sources(OURS, ".py"):
        for name, node in methods(ast.parse(text)):
            own = tokens(node)
            if len(own) >= TOKENS:
                yield f"{file}:{name}", own, outside_names(" ".join(own))


@pytest.mark.slow
@pytest.mark.torch
def test_functions_are_our_own():
    found = alike(list(own_functions()), theirs())
    unexpected = {place: other for place, other in found.items() if place not in NO_OTHER_FORM}
    assert not unexpected, "\n".join(f"{place}  ({other})" for place, other in sorted(unexpected.items()))
    assert not NO_OTHER_FORM.keys() - found.keys(), "listed, but not alike any more"
    assert all(len(reason) > 20 for reason in NO_OTHER_FORM.values()) and len(NO_OTHER_FORM) <= 20


def prose(text):
    """Yield the words of docstrings and comments, in pieces separated by punctuation and code."""
    for found in (*(string[2] for string in STRING.finditer(text)), *(comment[1] for comment in COMMENT.finditer(text))):
        for piece in SIGN.split(CODE.sub(" | ", found).lower()):
            yield WORD.findall(piece)


def runs(words):
    return zip(*(words[i:] for i in range(WORDS)), strict=False)


@pytest.mark.slow
@pytest.mark.torch
def test_prose_is_our_own():
    torch = theirs()
    places = {}
    for file, text in sources(OURS, ".py", ".pyx", ".pxd", ".pyi"):
        for words in prose(text):
            places.update((run, file) for run in runs(words))
    shared = {run for _, text in sources(torch, ".py") for words in prose(text) for run in runs(words) if run in places}
    assert not shared, "\n".join(sorted(f"{places[run]}: {' '.join(run)}" for run in shared))


COPY = '''
def total(self, numbers, start=0):
    """Add."""
    result = self.begin(start)
    for number in numbers:
        if number is None:
            raise ValueError("no number, which is a pity")
        result.add_(number.abs()).clamp_(min=0)
    return self.finish(result, scale=1.5)
'''


def test_a_renamed_copy_is_found(tmp_path):
    renamed = COPY.replace("numbers", "values").replace("number", "value").replace("result", "acc").replace("total", "_sum")
    (tmp_path / "module.py").write_text(f"import os\n\n\nclass Other:\n{textwrap.indent(renamed, '    ')}\n    x = 1\n")
    function = ast.parse(COPY).body[0]
    own = tokens(function)
    mine = [("here", own, outside_names(" ".join(own)))]
    assert alike(mine, tmp_path) == {"here": "1.00 module.py _sum"}
    (tmp_path / "module.py").write_text("def total(self, numbers):\n    return sum(map(abs, numbers))\n")
    assert alike(mine, tmp_path) == {}


def test_words_of_signatures_and_code_do_not_count():
    pieces = prose('"""Do ``a b c d e f g h`` with a Linear(in_features, out_features, bias=True)\n>>> one two three\n"""')
    assert [words for words in pieces if words] == [["do"], ["with", "a", "linear"], ["bias"], ["true"]]
    assert list(runs("a b c d e f g h".split())) == [tuple("abcdefg"), tuple("bcdefgh")]

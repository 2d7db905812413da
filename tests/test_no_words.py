"""No branch of the source goes by the words of a message: kinds and fields decide, text is made from them.

Anybody's exception may hold any words. Looked for are: `"..." in str(error)`, `str(error).startswith(...)`,
`reason == "..."`, a regular expression on any of these, and names that such a text was given to.
"""

import ast
from pathlib import Path

import pytest

import fedhpo

SOURCE = Path(fedhpo.__file__).parent
#: Where text must be looked at, and why.
ALLOWED = {
    "protocol/reasons.py": "the one parser of records and clients of 0.2.0, which have sentences alone",
    "engine/advice.py": "torch's exceptions have no codes; what is found only adds advice to an error",
    "engine/preflight.py": "torch's warning about broadcasting has no class of its own",
    "federations/apps/plain.py": "Flower gives one code for all that an app raises, and quotes the class",
    "testing/method.py": "an assertion of a conformance suite, about the words themselves",
    "research/compare/live.py": "what stopped a run, which no client and no exception names",
}
_NAMES = {
    "reason",
    "reasons",
    "why",
    "failure",
    "failures",
    "problem",
    "problems",
    "message",
    "error",
    "said",
    "sentence",
}
_METHODS = {"startswith", "endswith", "find", "index", "count", "match", "search", "fullmatch"}
_FIELDS = {"reason", "reasons", "failure", "problem", "message"}


def words_in(source: str) -> list[tuple[int, str]]:
    """Lines that branch on a message's text, and what stands there."""
    tree = ast.parse(source)
    return sorted({found for scope in _scopes(tree) for found in _in_scope(scope)})


def _scopes(tree):
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [tree, *functions]


def _in_scope(scope):
    caught = {n.name for n in ast.walk(scope) if isinstance(n, ast.ExceptHandler) and n.name}
    texts = set()

    def is_text(node):
        """Whether an expression is the text of an exception, or a reason."""
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in ("str", "repr") and node.args:
                inner = node.args[0]
                if isinstance(inner, ast.Attribute):
                    return inner.attr in _NAMES
                return isinstance(inner, ast.Name) and inner.id in caught | _NAMES
            inside = isinstance(node.func, ast.Attribute) and node.func.attr in ("lower", "strip", "get")
            return inside and is_text(node.func.value)
        if isinstance(node, ast.BoolOp):
            return any(map(is_text, node.values))
        if isinstance(node, ast.Attribute):
            return node.attr in _FIELDS | {"text"} and (node.attr != "text" or is_text(node.value))
        if isinstance(node, ast.Subscript):
            key = node.slice
            if isinstance(key, ast.Constant):
                return key.value in _FIELDS | {"why"} or is_text(node.value)
            return is_text(node.value)
        return isinstance(node, ast.Name) and node.id in texts | (_NAMES - {"error", "message"})

    for node in ast.walk(scope):
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
            if isinstance(node.value, ast.Tuple) and isinstance(node.targets[0], ast.Tuple):
                pairs = list(zip(node.targets[0].elts, node.value.elts, strict=False))
            texts |= {
                t.id for t, v in pairs if isinstance(t, ast.Name) and isinstance(v, ast.Call) and is_text(v)
            }
    for node in ast.walk(scope):
        if isinstance(node, ast.Compare):
            left, right = node.left, node.comparators[0]
            if isinstance(node.ops[0], ast.In | ast.NotIn):
                # `place in reasons` asks for a key; a literal, or a name in `reason or ""`, for words.
                words = _is_word(left) or isinstance(right, ast.BoolOp)
                hit = (is_text(right) and words) or (is_text(left) and not _is_kinds(right))
            elif isinstance(node.ops[0], ast.Eq | ast.NotEq):
                hit = (is_text(left) and _is_word(right)) or (is_text(right) and _is_word(left))
            else:
                hit = False
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            given = [node.func.value, *node.args]
            hit = node.func.attr in _METHODS and any(map(is_text, given))
        else:
            continue
        if hit:
            yield node.lineno, ast.unparse(node)


def _is_word(node):
    """A text that is written down, or put together: not a member of an enum."""
    constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    made = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str"
    named = isinstance(node, ast.Attribute) and node.attr == "name"
    return (constant and node.value != "") or isinstance(node, ast.JoinedStr) or made or named


def _is_kinds(node):
    """A container of something else than words."""
    return isinstance(node, ast.Tuple | ast.Set | ast.List) and not any(map(_is_word, node.elts))


@pytest.mark.parametrize("place", sorted(str(p.relative_to(SOURCE)) for p in SOURCE.rglob("*.py")))
def test_no_branch_goes_by_the_words_of_a_message(place):
    found = words_in((SOURCE / place).read_text(encoding="utf-8"))
    assert place in ALLOWED or not found, (
        f"{place}: {found}: let a kind or a field decide (fedhpo.protocol.reasons)"
    )


def test_every_place_that_is_allowed_needs_it():
    assert [p for p in ALLOWED if not words_in((SOURCE / p).read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "line",
    [
        'all("not finite" in why for why in reasons)',
        '"not finite" in report.reasons.get(place, "")',
        "self.reason not in KNOWN_REASONS",
        'reason == "no update came"',
        "try:\n    f()\nexcept ValueError as e:\n    x = str(run) in str(e)",
        "try:\n    f()\nexcept ValueError as e:\n    x = method.name in str(e)",
        "try:\n    f()\nexcept ValueError as e:\n    x = str(e).startswith('space')",
        "try:\n    f()\nexcept ValueError as e:\n    said = str(e)\n    x = 'forward()' in said",
        "re.match('[A-Z]', reason)",
        "one['reason'] == 'terminated'",
        "why.text == 'late'",
    ],
)
def test_what_0_2_0_branched_on_is_found(line):
    assert words_in(line)


@pytest.mark.parametrize(
    "line", ["reason.why == Why.LATE", "reason.why in (Why.LATE, Why.GONE)", "'size' in facts"]
)
def test_kinds_are_no_words(line):
    assert not words_in(line)

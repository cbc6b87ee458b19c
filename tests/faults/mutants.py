"""Mutants of a source file: one small change of its code each, such as `<` for `<=`, a negated condition, a statement left out.

Most changes are mutmut's, of which some are left out: a call with too few arguments, or a None in an assignment's place, fails any test
that runs it, and shows nothing about the tests. Negated conditions and statements left out are added. Names, annotations, docstrings,
decorators, logging and the texts of errors stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst
from mutmut.mutation import mutators

_UNTOUCHED = (cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom, cst.Raise)
_OF_MUTMUT = (
    (cst.BaseNumber, mutators.operator_number),
    (cst.Name, mutators.operator_name),
    (cst.AugAssign, mutators.operator_augmented_assignment),
    (cst.UnaryOperation, mutators.operator_remove_unary_ops),
    (cst.Call, mutators.operator_symmetric_string_methods_swap),
    (cst.Call, mutators.operator_unsymmetrical_string_methods_swap),
    (cst.CSTNode, mutators.operator_keywords),
    (cst.CSTNode, mutators.operator_swap_op),
    (cst.IfExp, mutators.operator_if_exp),
)


@dataclass(frozen=True)
class Mutant:
    """One changed file.

    Attributes:
        path: of the file within the checkout.
        function: dotted name of what holds the change; empty at the top of the file.
        before, after: the lines that differ, without indentation; they identify a mutant, since line numbers do not last.
        source: all of the changed file.
    """

    path: str
    function: str
    before: str
    after: str
    source: str


@dataclass(frozen=True)
class Spot:
    """Something in a file that can be changed in one or several ways.

    Attributes:
        name: no other place has it, and it stays the same when other code changes.
    """

    path: str
    module: cst.Module
    function: str
    node: cst.CSTNode
    changes: tuple[cst.CSTNode, ...]
    name: str

    def mutant(self, number: int) -> Mutant | None:
        """Return the mutant of one of the changes; None when it is not Python or nothing has changed."""
        old, new = self._text, self.module.deep_replace(self.node, self.changes[number]).code
        try:
            compile(new, self.path, "exec")
        except SyntaxError:
            return None
        before, after = _differing(old.splitlines(), new.splitlines())
        return Mutant(self.path, self.function, before, after, new) if before != after else None

    @cached_property
    def _text(self) -> str:
        return self.module.code


def find_spots(path: str, text: str) -> list[Spot]:
    """Return what can be changed in a file, in its order."""
    module = cst.parse_module(text)
    finder = _Finder(path, module)
    module.visit(finder)
    return finder.spots


class _Finder(cst.CSTVisitor):
    def __init__(self, path: str, module: cst.Module) -> None:
        super().__init__()
        self.path, self.module = path, module
        self.spots: list[Spot] = []
        self._names: list[str] = []
        self._met: Counter[str] = Counter()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            self._names.append(node.name.value)
            if node.name.value == "__repr__":
                return False
        changes = tuple(_changes(node))
        if changes:
            function = ".".join(self._names)
            name = f"{self.path} {function} {type(node).__name__} {self.module.code_for_node(node)}"
            self._met[name] += 1
            self.spots.append(Spot(self.path, self.module, function, node, changes, f"{name} {self._met[name]}"))
        return not (isinstance(node, _UNTOUCHED) or _is_logging(node) or _is_for_types(node) or _is_strictness(node))

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, (cst.FunctionDef, cst.ClassDef)):
            self._names.pop()


def _changes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if _is_logging(node) or _is_for_types(node):
        return
    operators: Iterable[tuple[type, Callable[[cst.CSTNode], Iterable[cst.CSTNode]]]] = _OF_MUTMUT
    for kind, operator in operators:
        if isinstance(node, kind):
            yield from operator(node)
    if isinstance(node, cst.Call):
        yield from _without_one_keyword(node)
    if isinstance(node, (cst.If, cst.While, cst.CompIf)):
        yield node.with_changes(test=cst.UnaryOperation(cst.Not(), _in_brackets(node.test)))
    if isinstance(node, cst.Raise) or (isinstance(node, cst.Expr) and isinstance(node.value, cst.Call) and not _is_logging(node.value)):
        yield cst.Pass()


def _without_one_keyword(call: cst.Call) -> Iterator[cst.Call]:
    for number, argument in enumerate(call.args):
        if argument.keyword is not None and not _is_strictness(argument):
            yield call.with_changes(args=[*call.args[:number], *call.args[number + 1 :]])


def _in_brackets(expression: cst.BaseExpression) -> cst.BaseExpression:
    return expression.with_changes(lpar=[cst.LeftParen(), *expression.lpar], rpar=[*expression.rpar, cst.RightParen()])


def _is_logging(node: cst.CSTNode) -> bool:
    is_method = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and isinstance(node.func.value, cst.Name)
    return is_method and node.func.value.value in ("logger", "logging")


def _is_for_types(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.If) and isinstance(node.test, cst.Name) and node.test.value == "TYPE_CHECKING"


def _is_strictness(node: cst.CSTNode) -> bool:
    """Return whether this is the ``strict`` of a ``zip``: a check of what cannot be, which no test can see."""
    return isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "strict"


def _differing(old: list[str], new: list[str]) -> tuple[str, str]:
    """Return what stands between the first and the last line that differ, on either side, on one line each."""
    first = next((number for number, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    old, new = old[first:], new[first:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    before, after = (" ".join(line.strip() for line in lines) for lines in (old, new))
    return before, after

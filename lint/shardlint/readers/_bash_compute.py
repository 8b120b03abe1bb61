"""What a shell computes from known values: integer arithmetic, and parts of paths."""

from __future__ import annotations

import ast
import operator
import posixpath
import re
from collections.abc import Callable

_EXPRESSION = re.compile(r"(?:\s|[A-Za-z_]\w*|\d+(?!\w)|[-+*/%()])+", re.ASCII)
_LONGEST = 200
_LIMIT = 2**63


def _divide(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,  # towards zero, as C does
    ast.Mod: lambda left, right: left - right * _divide(left, right),
}


class NumberError(Exception):
    """Not a number that can be known here; the message is the reason."""


def evaluate(expression: str, number_of: Callable[[str], int]) -> int:
    """The value of `+ - * / %`, brackets, numbers and names; raises NumberError.

    Python's grammar agrees with the shell's on this part of it.
    """
    if len(expression) > _LONGEST or not _EXPRESSION.fullmatch(expression):
        raise NumberError("arithmetic of this kind is not computed")
    try:
        return _evaluate(ast.parse(expression.strip(), mode="eval").body, number_of)
    except (SyntaxError, ZeroDivisionError):
        raise NumberError("the arithmetic has no value") from None


def _evaluate(node: ast.expr, number_of: Callable[[str], int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return number_of(node.id)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _evaluate(node.left, number_of), _evaluate(node.right, number_of)
        result = _OPERATORS[type(node.op)](left, right)
        if abs(result) < _LIMIT:
            return result
    raise NumberError("arithmetic of this kind is not computed")


def part_of_path(command: str, path: str, suffix: str = "") -> str:
    """What `basename` or `dirname` prints."""
    stripped = path.rstrip("/") or path[:1]
    if command == "dirname":
        return posixpath.dirname(stripped).rstrip("/") or ("/" if path.startswith("/") else ".")
    name = posixpath.basename(stripped) or stripped
    return name.removesuffix(suffix) or name

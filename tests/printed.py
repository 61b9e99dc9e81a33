"""Tables of coefficients as terminals and notebooks show them, beside those of statsmodels."""

import re
from collections.abc import Iterable, Iterator
from html import unescape
from typing import Any

import numpy as np

HEADER = ["coef", "std err", "t", "P>|t|", "[0.025", "0.975]"]
"""Column heads for a linear model; others have z in place of t."""

_NUMBER = re.compile(r"[<-]?[\d,]*\.?\d+(?:e[-+]?\d+)?")


def lines_of_text(text: str) -> Iterator[list[str]]:
    """The columns of each line, which two spaces part."""
    for line in text.splitlines():
        yield re.split(r"\s{2,}", line.strip("│ "))


def lines_of_page(page: str) -> Iterator[list[str]]:
    """The cells of each row of each table."""
    for row in re.findall(r"(?s)<tr\b.*?</tr>", page):
        cells = re.findall(r"(?s)<t[hd]\b[^>]*>(.*?)</t[hd]>", row)
        yield [unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in cells]


def regressions(lines: Iterable[list[str]]) -> list[dict[str, list[str]]]:
    """For each table of coefficients the printed numbers of each term, in the order of ``HEADER``."""
    tables: list[dict[str, list[str]]] = []
    inside = False
    for cells in lines:
        if [cell.replace("z", "t") for cell in cells if cell] == HEADER:
            tables.append({})
            inside = True
        elif inside and len(cells) == 1 + len(HEADER) and all(map(_NUMBER.fullmatch, cells[1:])):
            tables[-1][cells[0]] = cells[1:]
        elif inside and tables[-1] and any(cells):
            inside = False
    return tables


def check_regression(printed: dict[str, list[str]], fitted: Any, *, rounded: bool = False) -> None:
    """Compare every printed number with a fit of statsmodels, to half a unit of its last digit.

    Args:
        rounded: Whether estimates were first rounded to two digits of their standard errors, and all
            else computed from them.
    """
    assert list(printed) == list(fitted.params.index)
    low, high = fitted.conf_int().to_numpy().T
    columns = [fitted.params, fitted.bse, fitted.tvalues, fitted.pvalues, low, high]
    slack = np.zeros((len(HEADER), len(printed)))
    if rounded:
        error = fitted.bse.to_numpy()
        t = (1 + np.abs(fitted.tvalues)) / 18
        slack = np.array([error / 20, error / 20, t, 0.8 * t, error / 6, error / 6])
    for place, (name, words) in enumerate(printed.items()):
        for word, column, more in zip(words, columns, slack, strict=True):
            check_number(word, np.asarray(column)[place], float(more[place]), name)


def check_number(word: str, truth: float, slack: float = 0.0, name: str = "") -> None:
    """Compare one printed number with the truth, to half a unit of its last digit and the slack."""
    digits = word.lstrip("<").replace(",", "")
    if word.startswith("<"):
        assert truth < float(digits) + slack, name
        return
    mantissa, _, exponent = digits.partition("e")
    half = 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    assert abs(float(digits) - truth) <= half * (1 + 1e-9) + slack, (name, word, truth)

"""Small self-contained HTML for notebooks. Everything that came from outside is escaped here."""

from collections.abc import Iterable, Sequence
from html import escape

_PANEL = (
    "border:1px solid color-mix(in srgb, currentColor 25%, transparent);border-radius:6px;"
    "padding:.6em 1em;margin:.4em 0;max-width:60em;line-height:1.45"
)
_NAME = "white-space:nowrap;font-weight:500;opacity:.75"
_CELL = "text-align:left;vertical-align:top;padding:.15em 1.2em .15em 0;background:none"


def panel(title: str, *parts: str) -> str:
    """A framed box; ``parts`` are HTML already."""
    head = f'<div style="font-weight:600;font-size:1.05em">{escape(title)}</div>'
    return f'<div style="{_PANEL}">{head}{"".join(parts)}</div>'


def paragraph(text: str) -> str:
    return f'<p style="margin:.3em 0">{escape(text)}</p>' if text else ""


def facts(lines: Iterable[tuple[str, str]]) -> str:
    """A table of names and values."""
    rows = "".join(
        f'<tr><th scope="row" style="{_CELL};{_NAME}">{escape(name)}</th>'
        f'<td style="{_CELL}">{escape(value)}</td></tr>'
        for name, value in lines
    )
    return f'<table style="border-collapse:collapse;margin:.3em 0">{rows}</table>'


def grid(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table with a row of heads."""
    head = "".join(f'<th scope="col" style="{_CELL};opacity:.75">{escape(text)}</th>' for text in heads)
    body = "".join(f"<tr>{_cells(line)}</tr>" for line in lines)
    return (
        f'<table style="border-collapse:collapse;margin:.3em 0"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _cells(line: Sequence[str]) -> str:
    return "".join(f'<td style="{_CELL}">{escape(text)}</td>' for text in line)

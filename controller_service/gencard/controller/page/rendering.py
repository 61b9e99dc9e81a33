"""Templates and files of the page, read once; everything that a template prints is escaped."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

from gencard.controller.page.security import NO_STORE
from gencard.shell import as_written, visible

_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that browsers fetch: its bytes, kind, and a digest that its address carries."""

    content: bytes
    kind: str
    digest: str


@cache
def assets() -> Mapping[str, Asset]:
    """Return every such file, by name."""
    folder = files(__package__) / "static"
    contents = {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if entry.name.rpartition(".")[2] in _KINDS
    }
    return {
        name: Asset(content, _KINDS[name.rpartition(".")[2]], hashlib.sha256(content).hexdigest()[:12])
        for name, content in contents.items()
    }


def asset_address(name: str) -> str:
    """Return the address of a file for browsers, which changes with the file's content."""
    return f"/static/{name}?{assets()[name].digest}"


def asset_response(name: str, query: str) -> Response | None:
    """Return the response with a file; None if no file has this name."""
    asset = assets().get(name)
    if asset is None:
        return None
    same = query == asset.digest
    cache_control = f"private, max-age={_DAY}, immutable" if same else NO_STORE
    return Response(asset.content, media_type=asset.kind, headers={"cache-control": cache_control})


@cache
def environment() -> Environment:
    """Return the environment of templates: all texts are escaped, an unknown name is an error."""
    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_without_controls,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["asset"] = asset_address
    # its result counts as safe, and is not where it stands in an attribute
    del environment.filters["tojson"]
    environment.filters |= {
        "ago": ago,
        "day": day,
        "json": json.dumps,
        "minute": minute,
        "number": number,
        "person": person,
    }
    return environment


def _without_controls(value: Any) -> Any:
    """Escape the control characters of a text: browsers would obey characters that reorder text."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return visible(value, lambda letter: letter if letter == "\t" else as_written(letter))


def rendered(template: str, context: Mapping[str, Any]) -> str:
    """Return the text of a template."""
    return environment().get_template(template).render(context)


def person(uri: str) -> str:
    """Return the name in an identity's URI.

    >>> person("spiffe://gencard.local/pilot/analyst/ana")
    'ana'
    """
    return uri.rpartition("/")[2]


def day(time: datetime) -> str:
    """Return a date in UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d}"


def minute(time: datetime) -> str:
    """Return a time in UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def number(value: int) -> str:
    """Return a whole number with its thousands apart."""
    return f"{value:,}"


_SPANS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def ago(time: datetime, now: datetime) -> str:
    """Return the time since or until a moment, in its largest unit.

    >>> from datetime import timedelta
    >>> then = datetime(2026, 1, 1, tzinfo=UTC)
    >>> ago(then, then + timedelta(hours=49)), ago(then + timedelta(days=3), then)
    ('2 days', 'in 3 days')
    """
    seconds = (now - time).total_seconds()
    for span, unit in _SPANS:
        if (count := int(abs(seconds) // span)) > 0:
            text = f"{count} {unit}{'' if count == 1 else 's'}"
            return text if seconds >= 0 else f"in {text}"
    return "just now"

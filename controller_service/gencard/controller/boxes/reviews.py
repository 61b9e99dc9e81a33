"""Reviews of black boxes: one line in the settings file, for one digest."""

import json
import os
import re
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

from gencard.controller.settings.boxes import ReviewTable
from gencard.controller.settings.disk import write_whole
from gencard.core.errors import InvalidInputError

_FIELD = "reviewed_by"


def review_line(review: ReviewTable) -> str:
    """The line that a black box's table in the settings needs."""
    name = json.dumps(review.name, ensure_ascii=False)  # which is a basic string of TOML, too
    return f'{_FIELD} = {{ name = {name}, digest = "{review.digest}" }}'


def write_review(file: Path, box: str, review: ReviewTable) -> None:
    """Put a review into the settings file, in place of an earlier one of the same black box.

    Raises:
        InvalidInputError: The file is not written so that the line could be put in and nothing else
            changed; it is as it was.
        StorageError: The file cannot be written.
    """
    before = file.read_text(encoding="utf-8")
    after = _with_line(before, box, review_line(review))
    written = None if after is None else _settings(after)
    if after is None or written is None or written != _reviewed(_settings(before), box, review):
        problem = f'has no table [[black_boxes]] with name = "{box}" that a line can be added to'
        raise InvalidInputError(field=file.name, problem=problem)
    mode, owner, group = (status := file.stat()).st_mode, status.st_uid, status.st_gid
    write_whole(file, [after.encode()])
    with suppress(PermissionError):  # only root can give a file away
        os.chown(file, owner, group)
    file.chmod(mode)


def _with_line(text: str, box: str, line: str) -> str | None:
    """The text with the line in the table of the black box; None where there is no such table."""
    for table in re.finditer(r"(?m)^\[\[black_boxes\]\][^\n]*\n(?:(?!\[)[^\n]*(?:\n|\Z))*", text):
        own = re.sub(rf"(?m)^{_FIELD}[ \t]*=[^\n]*\n?", "", table.group())
        named = re.search(rf"(?m)^name[ \t]*=[ \t]*[\"']{re.escape(box)}[\"'][^\n]*$", own)
        if named:
            own = f"{own[: named.end()]}\n{line}{own[named.end() :]}"
            return text[: table.start()] + own + text[table.end() :]
    return None


def _settings(text: str) -> dict[str, Any] | None:
    """The settings in a text; None where it is no TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _reviewed(settings: dict[str, Any] | None, box: str, review: ReviewTable) -> dict[str, Any] | None:
    """The settings as they should be after the review."""
    for table in (settings or {}).get("black_boxes", ()):
        if table.get("name") == box:
            table[_FIELD] = review.model_dump()
    return settings

"""Edits of settings and schema files: comments and order stay, and nothing is written that is not valid.

What a file would mean afterwards is checked as a whole before the file is replaced, in one step.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT

from gencard.controller.base.disk import write_whole
from gencard.controller.base.files import read_table, table_of_text, toml_text
from gencard.controller.boxes import ReviewTable
from gencard.controller.drafting.schema_draft import DRAFTED_SENTENCES, left_out_words
from gencard.controller.records.schema_file import PublicSchema, schema_of_text
from gencard.controller.settings import DatasetTable, Settings
from gencard.core.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class AttributeEdit:
    """Changes of one attribute's table in a schema file; None as a value takes a key away.

    ``words`` describe labels in ``values``, as comments; ``add_labels`` and ``add_absent`` are
    appended.
    """

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    words: Sequence[str] = ()
    add_labels: Sequence[str] = ()
    add_absent: Sequence[str] = ()
    leave_out: bool = False
    new: bool = False


def edit_attribute(file: Path, edit: AttributeEdit) -> PublicSchema:
    """Change one attribute, and return the schema, which then counts as not reviewed.

    Errors change no file: InvalidInputError, InvalidCodingError, InvalidDomainError, StorageError.
    """
    document = _document(file)
    attributes = _tables(document, "attributes", file)
    if edit.new:
        if any(table.get("name") == edit.name for table in attributes):
            raise InvalidInputError(field="attribute", problem=f"{edit.name!r} is already in the schema")
        text = f"\n[[attributes]]\nname = {toml_text(edit.name)}\n"
        attributes.append(tomlkit.parse(text)["attributes"][0])
    place = _place(attributes, edit.name, "attribute")
    if edit.leave_out:
        attributes.pop(place)
    else:
        _apply(attributes[place], edit)
    document["reviewed"] = False
    # comments above all attributes that the edit has answered
    comments = {
        left_out_words(edit.name): edit.new,
        f"Does {edit.name!r} say whose a record is": edit.leave_out,
        f"Is {edit.name!r} a weight?": edit.leave_out or "description" in edit.values,
    }
    lines = [re.escape(f"# {begin}") for begin, answered in comments.items() if answered]
    return _write_schema(file, document, f"(?m)^(?:{'|'.join(lines)}).*\n" if lines else "")


def edit_schema(file: Path, values: Mapping[str, str | bool]) -> PublicSchema:
    """Set keys of a schema, such as title or reviewed; raises as ``edit_attribute``."""
    document = _document(file)
    for name, value in values.items():
        document[name] = value
    return _write_schema(file, document)


def add_dataset(file: Path, text: str) -> DatasetTable:
    """Add a dataset after those in the settings; InvalidInputError or StorageError changes no file."""
    document = _document(file)
    new_datasets: Any = tomlkit.parse(f"{text}\n")["datasets"]
    if "datasets" in document:
        _tables(document, "datasets", file).append(new_datasets[0])
    else:
        document.append("datasets", new_datasets)
    return _write_settings(file, document).datasets[-1]


def remove_dataset(file: Path, name: str) -> None:
    """Take a dataset out of the settings; raises as ``add_dataset``."""
    document = _document(file)
    datasets = _tables(document, "datasets", file)
    datasets.pop(_place(datasets, name, "dataset"))
    _write_settings(file, document)


def edit_caps(
    file: Path,
    dataset: str,
    account: tuple[str, str],
    amounts: Mapping[str, int | str],
    check: Callable[[Settings], object],
) -> Settings:
    """Set amounts of one cap of a dataset; the others stay.

    Args:
        account: ``dataset``, ``project`` or ``analyst``, and the name of the one project or analyst
            that is meant; empty for all.
        amounts: Amounts by currency: statistics, epsilon, rho.
        check: Raises if the settings must not be written.

    Raises:
        InvalidInputError: As ``add_dataset``, or there is no such dataset.
    """
    document, (scope, name) = _document(file), account
    datasets = _tables(document, "datasets", file)
    caps: Any = datasets[_place(datasets, dataset, "dataset")].setdefault("caps", tomlkit.table())
    own = dict(caps.get(f"{scope}s", {}))
    after = {**caps.get(scope, {}), **own.get(name, {}), **amounts}
    key, value = (f"{scope}s", own | {name: after}) if name else (scope, after)
    caps[key] = _value(toml_text(value))
    return _write_settings(file, document, check)


def _apply(table: Any, edit: AttributeEdit) -> None:
    before = table.unwrap()
    for name, value in edit.values.items():
        if value is None:
            table.pop(name, None)
        elif not (value is True and table.get(name)):  # a list of what counts as missing stays
            table[name] = _value(toml_text(value))
    if edit.words:
        lines = zip(edit.values["labels"], edit.words, strict=True)
        listed = "".join(f"    {toml_text(label)},  # {words}\n" for label, words in lines)
        table["labels"] = _value(f"[\n{listed}]")
    other = edit.values.get("other")
    add_labels = [*edit.add_labels, *([other] if other and other not in table.get("labels", ()) else [])]
    for label in add_labels:  # comments beside other labels stay
        table.setdefault("labels", _value("[]")).append(str(label))
    if edit.add_absent:
        absent = table.get("missing", [])
        marks = [*(absent if isinstance(absent, list) else ()), *edit.add_absent]
        table["missing"] = _value(toml_text([str(mark) for mark in marks]))
    _say_edited(table, before)


_CHANGED = ", then changed by a steward."


def _say_edited(table: Any, before: Mapping[str, Any]) -> None:
    """Take sentences of the draft that a change has made wrong out of the comment of an attribute."""
    after = table.unwrap()
    changed = {name for name in (*before, *after) if before.get(name) != after.get(name)}
    labels, comment = before.get("labels", []), table.trivia.comment
    stale = changed - ({"labels"} if labels == after.get("labels", [])[: len(labels)] else set())
    for sentence, keys in DRAFTED_SENTENCES.items():
        if stale & keys:
            comment = re.sub(sentence, "", comment)
    if changed - {"description", "groups"}:
        comment = re.sub(
            r"( drafted from [^.]*?)\.", lambda it: it[1].removesuffix(_CHANGED[:-1]) + _CHANGED, comment
        )
    comment = re.sub("  +", " ", comment).strip()
    table.trivia.comment = "" if comment == "#" else comment
    if not table.trivia.comment:
        table.trivia.comment_ws = ""


def _place(tables: AoT, name: str, field: str) -> int:
    names = [str(table.get("name")) for table in tables]
    if name in names:
        return names.index(name)
    close = get_close_matches(name, names, n=1) or names
    raise InvalidInputError(field=field, problem=f"there is no {name!r}; did you mean {close[0]!r}")


def _value(text: str) -> Any:
    return tomlkit.parse(f"value = {text}\n")["value"]


def _tables(document: tomlkit.TOMLDocument, name: str, file: Path) -> AoT:
    tables = document.get(name)
    if not isinstance(tables, AoT):
        raise InvalidInputError(field=f"{file.name}: {name}", problem=f"has no tables [[{name}]]")
    return tables


def _document(file: Path) -> tomlkit.TOMLDocument:
    read_table(file)  # refuses what cannot be read, in words of ours
    with suppress(TOMLKitError):
        return tomlkit.parse(file.read_text(encoding="utf-8"))
    raise InvalidInputError(field=file.name, problem="is not valid TOML")


def _write_schema(file: Path, document: tomlkit.TOMLDocument, without: str = "") -> PublicSchema:
    text = re.sub(without, "", document.as_string()) if without else document.as_string()
    schema = schema_of_text(text, file.name)
    _replace(file, text)
    return schema


def _write_settings(
    file: Path,
    document: tomlkit.TOMLDocument,
    check: Callable[[Settings], object] = lambda _settings: None,
) -> Settings:
    text = document.as_string()
    settings = Settings.of_table(table_of_text(text, file.name), file)
    check(settings)
    _replace(file, text)
    return settings


def _replace(file: Path, text: str) -> None:
    """Put a text in the place of a file's, whose mode and owner stay."""
    place = file.resolve()  # a link stays one
    status = place.stat()
    write_whole(place, [text.encode()])
    with suppress(PermissionError):  # only root can give a file away
        os.chown(place, status.st_uid, status.st_gid)
    place.chmod(status.st_mode)


_FIELD = "reviewed_by"


def review_line(review: ReviewTable) -> str:
    """Return the line that a black box's table in the settings needs."""
    name = json.dumps(review.name, ensure_ascii=False)  # which is a basic string of TOML, too
    return f'{_FIELD} = {{ name = {name}, digest = "{review.digest}" }}'


def write_review(file: Path, box: str, review: ReviewTable) -> None:
    """Put a review into the settings, in place of one of the same box; an error changes nothing."""
    before = file.read_text(encoding="utf-8")
    after = _with_line(before, box, review_line(review))
    settings = None if after is None else _settings(after)
    expected = None if settings is None else _settings(before)
    for table in (expected or {}).get("black_boxes", ()):
        if table.get("name") == box:
            table[_FIELD] = review.model_dump()
    if after is None or settings is None or settings != expected:
        problem = f'has no table [[black_boxes]] with name = "{box}" that a line can be added to'
        raise InvalidInputError(field=file.name, problem=problem)
    _replace(file, after)


def _with_line(text: str, box: str, line: str) -> str | None:
    for table in re.finditer(r"(?m)^\[\[black_boxes\]\][^\n]*\n(?:(?!\[)[^\n]*(?:\n|\Z))*", text):
        own = re.sub(rf"(?m)^{_FIELD}[ \t]*=[^\n]*\n?", "", table.group())
        name_line = re.search(rf"(?m)^name[ \t]*=[ \t]*[\"']{re.escape(box)}[\"'][^\n]*$", own)
        if name_line:
            own = f"{own[: name_line.end()]}\n{line}{own[name_line.end() :]}"
            return text[: table.start()] + own + text[table.end() :]
    return None


def _settings(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None

"""Files of the controller: TOML that people write; secrets and keys that only the service may read."""

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import partial, reduce
from inspect import getdoc
from operator import or_
from pathlib import Path
from types import GenericAlias, UnionType
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError, create_model
from pydantic_core import CoreSchema, core_schema

from gencard.core.errors import InvalidInputError
from gencard.files import SETTINGS_LIMIT, open_file, read_file

Table = dict[str, Any]
_Model = TypeVar("_Model", bound=BaseModel)

_PROBLEMS = {  # in braces: what is allowed, never what was given
    "missing": "is required",
    "extra_forbidden": "is not a known name",
    "union_tag_not_found": "has no kind",
    "union_tag_invalid": "is of an unknown kind, not one of {expected_tags}",
    "literal_error": "is not {expected}",
    "enum": "is not {expected}",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be {le} or less",
    "too_short": "needs {min_length} or more",
    "too_long": "needs {max_length} or fewer",
    "no_generator": "is not the name of a generator; docs/methods.md lists them",
    "no_measure": "is not the name of a measure; docs/methods.md lists them",
    "int_type": "is not a whole number",
    "int_parsing": "is not a whole number",
    "float_type": "is not a number",
    "float_parsing": "is not a number",
    "finite_number": "is not a finite number",
    "bool_type": "is not true or false",
    "bool_parsing": "is not true or false",
    "string_type": "is not text in quotes",
    "tuple_type": "is not a list",
    "time_of_day": "is not a time of day such as 06:30, or 24:00 as the last edge",
    "time_without_source": "has times of day, which need time_of, the name of an attribute with a zone",
    "string_pattern_mismatch": "has characters that are not allowed, or is too long",
}


class Section(BaseModel):
    """A table of a TOML file: nothing missing, nothing unknown, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Stated(Generic[_T]):
    """A value whose constructor runs at its use, so that a mistake in it stops no other setting."""

    kind: Callable[..., _T]
    values: Mapping[str, Any]

    @property
    def value(self) -> _T:
        """Value of the constructor; raises its error."""
        return self.kind(**self.values)


class TableOf:
    """Annotation of a dataclass that a table of a TOML file states, by the names of its fields.

    ``measures: Annotated[Declared, TableOf()]``: pydantic checks names and types, unknown names are
    refused at each level, and the constructor of the dataclass checks the rest; that of
    ``Annotated[Stated[FileFormat], TableOf()]`` later.

    Args:
        purpose: Description of the table in the reference, if not that of the dataclass.
        forms: Form of a field in the file, if not its type: an annotation, or that and a default; None
            for a field that no file states.
    """

    def __init__(self, purpose: str = "", /, **forms: Any) -> None:
        self._purpose, self._forms = purpose, forms
        self._sections: dict[type, type[Section]] = {}

    def section(self, kind: type) -> type[Section]:
        """Return the model of the table; its docstring is that of the dataclasses that it states."""
        kind = _stated(kind)
        if kind not in self._sections:
            doc = "\n\n".join(getdoc(one) or "" for one in kind.__mro__ if is_dataclass(one))
            if self._purpose:
                doc = f"{self._purpose}\n\n{doc[doc.index('Args:') :]}"
            hints = get_type_hints(kind, include_extras=True)
            entries: dict[str, Any] = {}
            for field in fields(kind):
                form = self._forms.get(field.name, _form(hints[field.name]))
                default = field.default if field.default_factory is MISSING else field.default_factory()
                usual = ... if default is MISSING else default
                if form is not None:
                    entries[field.name] = form if isinstance(form, tuple) else (form, usual)
            about: dict[str, Any] = {"__doc__": doc, "__module__": kind.__module__}
            self._sections[kind] = create_model(kind.__name__, __base__=Section, **about, **entries)
        return self._sections[kind]

    def __get_pydantic_core_schema__(self, kind: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: object, section_of: Callable[[object], Section]) -> object:
            if is_dataclass(value):
                return value  # a default
            values: Table = dict(iter(section_of(value)))  # a field may be called keys
            return kind(**values) if kind is _stated(kind) else Stated(_stated(kind), values)

        return core_schema.no_info_wrap_validator_function(
            read,
            handler.generate_schema(self.section(kind)),
            serialization=core_schema.plain_serializer_function_ser_schema(partial(self._table, kind)),
        )

    def _table(self, kind: type, value: Any) -> Table:
        section = self.section(kind)
        own = {name: getattr(value, name, None) for name in section.model_fields}
        stated = value.values if isinstance(value, Stated) else own
        return section.model_construct(**stated).model_dump(by_alias=True)


def _stated(kind: type) -> type:
    parts: tuple[type, ...] = get_args(kind)
    return parts[0] if get_origin(kind) is Stated else kind


def _form(hint: Any) -> Any:
    """Return the form of a field by its type: each dataclass in it is a table in turn."""
    parts = [part if part is ... else _form(part) for part in get_args(hint)]
    if isinstance(hint, UnionType):
        return reduce(or_, parts)
    if get_origin(hint) is tuple:
        return GenericAlias(tuple, tuple(parts))
    return Annotated[hint, TableOf()] if is_dataclass(hint) else hint


def read_table(path: Path) -> Table:
    """Return the table that a file holds; raises InvalidInputError if it is not TOML in UTF-8."""
    return table_of_text(read_text(path), path.name)


def read_text(path: Path) -> str:
    """Return the text of a TOML file; raises InvalidInputError if it cannot be read or is no UTF-8."""
    with suppress(UnicodeDecodeError):
        return read_file(path, path.name, SETTINGS_LIMIT).decode().replace("\r\n", "\n")
    raise InvalidInputError(field=path.name, problem="is not valid TOML")


def table_of_text(text: str, file: str) -> Table:
    """Return the table that the text of a file is; raises InvalidInputError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"\(at line (\d+)", str(error))
        problem = f"is not valid TOML{f' at line {line[1]}' if line else ''}"
    except RecursionError:
        problem = "is not valid TOML"
    raise InvalidInputError(field=file, problem=problem)


def validated(kind: type[_Model], table: Table, file: str) -> _Model:
    """Return the model of a file's table; InvalidInputError names a wrong field, never its value."""
    try:
        return kind(**table)
    except ValidationError as error:
        refusal = refusal_of(error, file)
    raise refusal


def refusal_of(error: ValidationError, file: str, sections: Collection[str] = ()) -> InvalidInputError:
    """Return the first wrong field, and how, without a value; ``sections`` are tables of the file."""
    first = error.errors(include_input=False, include_url=False)[0]
    field = ": ".join(filter(None, (file, ".".join(str(part) for part in first["loc"]))))
    problem = _PROBLEMS.get(first["type"], f"is not valid ({first['type'].replace('_', ' ')})")
    problem = problem.format_map(first.get("ctx", {}))
    if first["type"] == "extra_forbidden":
        names = sections if len(first["loc"]) == 1 and sections else _names_of(Section)
        close = get_close_matches(str(first["loc"][-1]), names, n=1)
        problem += f"; did you mean {close[0]!r}" if close else ""
    return InvalidInputError(field=field, problem=problem)


def _names_of(kind: type[BaseModel]) -> set[str]:
    own = {field.alias or name for name, field in kind.model_fields.items()}
    return own.union(*map(_names_of, kind.__subclasses__()))


def toml_text(value: object) -> str:
    """Return a string, number, truth value, or list or table of them as TOML.

    >>> toml_text(["a", 1, 2.5, True])
    '["a", 1, 2.5, true]'
    >>> toml_text({"a b": [1]})
    '{ "a b" = [1] }'
    >>> toml_text({"rho": "0.5"})
    '{ rho = "0.5" }'
    """
    if isinstance(value, dict):
        plain = re.compile(r"[A-Za-z0-9_-]+")
        names = (name if plain.fullmatch(name) else toml_text(name) for name in value)
        entries = map("{} = {}".format, names, map(toml_text, value.values()))
        return f"{{ {', '.join(entries)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_text(entry) for entry in value)}]"
    if isinstance(value, str):  # a TOML basic string is a JSON string, but for DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LARGEST = 1 << 16


def secret_bytes(path: Path, field: str) -> bytes:
    """Return the content of a secret file; InvalidInputError if others have a right, or it is large."""
    try:
        with open_file(path, field) as file:
            status = os.fstat(file.fileno())  # of what was opened, not of what lies there later
            content = file.read(_LARGEST)
    except OSError:
        raise InvalidInputError(field=field, problem="the file cannot be read") from None
    if stat.S_IMODE(status.st_mode) & _OTHERS:
        problem = "other users can access the file; set its mode to 0600"
        raise InvalidInputError(field=field, problem=problem)
    if not content or len(content) == _LARGEST:
        raise InvalidInputError(field=field, problem="the file does not contain a secret")
    return content


def signing_key(path: Path, field: str) -> Ed25519PrivateKey:
    """Return an Ed25519 private key, PEM without password; raises InvalidInputError."""
    content = secret_bytes(path, field)
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInputError(field=field, problem="is not an Ed25519 private key")
    return key


def public_key(pem: str, field: str) -> Ed25519PublicKey:
    """Return an Ed25519 public key from PEM text; raises InvalidInputError."""
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInputError(field=field, problem="is not an Ed25519 public key")
    return key

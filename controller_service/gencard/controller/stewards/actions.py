"""Effects of stewards' actions: data to review, stewards who have to agree, changes of the state."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from gencard.core.errors import InvalidInputError
from gencard.wire.canonical import (
    Document,
)
from gencard.wire.steward import Action

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Demands:
    """Conditions that a decision has to meet.

    Args:
        dataset: Dataset whose policy says whether two stewards decide; empty for the controller's rules.
        gives: Whether the action discloses data or removes a protection: a policy of two stewards
            covers it. Refusing and ending never need two.
        under: Names of single rules that cover it, as the settings name them.
        subject: URI of the person whom the action is about, who cannot decide on it.
        changes_people: Whether it admits a person, anew or with other keys, or removes a steward: if
            anything needs two stewards, one alone could otherwise become two, or the only one.
    """

    dataset: str = ""
    gives: bool = False
    under: frozenset[str] = frozenset()
    subject: str = ""
    changes_people: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """Result of an action.

    Args:
        result: Texts, by name.
        afterwards: Files that change once the transaction is true; the log holds the decision by then.
    """

    result: Mapping[str, str] = field(default_factory=dict)
    afterwards: Callable[[], None] | None = None


class ActionEffect(Protocol):
    """One kind of action. All of it looks at the state as it is in the transaction."""

    def turn(self) -> AbstractContextManager[object]:
        """Return a lock, held from before the transaction until its consequences are done."""
        ...

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:
        """Return the document that a steward has to have seen; its digest is compared.

        Raises:
            NotFoundError: No such resource.
        """
        ...

    def demands(self, tx: Connection, action: Action) -> Demands:
        """Return the conditions of an action: who has to agree."""
        ...

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Make it true; raises what the action may end in.

        Args:
            by: URI of the steward who decided last.
        """
        ...


class InTheState:
    """Mixin for effects that change the state alone: writers of the state follow one another."""

    __slots__ = ()

    def turn(self) -> AbstractContextManager[object]:
        """Return an empty context: nothing follows the transaction."""
        return nullcontext()


def argument(arguments: Mapping[str, Any], name: str, kind: type[T], default: T) -> T:
    """Return one argument of an action.

    Raises:
        InvalidInputError: The argument has another type.
    """
    value = arguments.get(name, default)
    if type(value) is not kind:
        raise InvalidInputError(field=f"arguments.{name}", problem="has the wrong type")
    return value


def texts(arguments: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a list of texts; raises InvalidInputError if it is none."""
    values = argument(arguments, name, list, [])
    if not all(isinstance(value, str) for value in values):
        raise InvalidInputError(field=f"arguments.{name}", problem="is not a list of texts")
    return tuple(values)


def refuse_others(arguments: Mapping[str, Any], *names: str) -> None:
    """Raise InvalidInputError if there is an argument of another name."""
    if not arguments.keys() <= {*names}:
        problem = f"may contain only {', '.join(names) or 'nothing'}"
        raise InvalidInputError(field="arguments", problem=problem)

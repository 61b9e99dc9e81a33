"""The declared levels of an attribute, by name and by value."""

from typing import Any

from gencard.core.coding import Attribute, Labels

UNDECLARED = -1


def names_of(attribute: Attribute) -> tuple[str, ...]:
    """What the levels are called in a file, without "missing"."""
    coding = attribute.coding
    return coding.level_names[: coding.size - coding.missing]


def is_ordered(attribute: Attribute) -> bool:
    return not isinstance(attribute.coding, Labels) or attribute.coding.ordered


def is_integer(attribute: Attribute) -> bool:
    return isinstance(attribute.coding, Labels) and attribute.coding.integer


def code_of(attribute: Attribute) -> dict[Any, int]:
    """Code of each level by its name, and by its number where it is one.

    None is "missing", and so is empty text where it is no label; UNDECLARED where that is not declared.
    """
    names = names_of(attribute)
    absent = len(names) if attribute.coding.missing else UNDECLARED
    codes = {name: code for code, name in enumerate(names)}
    numbers = {int(name): code for name, code in codes.items()} if is_integer(attribute) else {}
    return {"": absent, None: absent, **codes, **numbers}

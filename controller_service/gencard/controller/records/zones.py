"""Zones in which instants have a date and a time of day: their names, and what does not go together."""

from zoneinfo import available_timezones


def is_zone(name: str) -> bool:
    """Whether a name is one of the IANA database, such as ``America/New_York``.

    A host's own zone has none there, and ``Factory`` stands for one that is not set.
    """
    return name in available_timezones() and name not in ("localtime", "Factory")


def without_offset(name: str) -> str:
    """Return why a column with a zone is refused whose values are no instants."""
    return (
        f"'{name}' has a zone in the schema, but its values have no offset from UTC, so their instants "
        "are not known; store them with their offset (2013-01-01T05:15:00-05:00), or take the zone away"
    )


def without_zone(name: str) -> str:
    """Return why a column of instants is refused whose zone is not declared."""
    return (
        f"'{name}' holds instants, and the schema has no zone for it; state one, such as "
        'zone = "America/New_York", in which they have a date'
    )

"""What the role of an address may do in PostgreSQL, as the catalogs say: no record is read.

Rights count whoever gave them: to the role itself, to everybody (PUBLIC), or to a role that it is a
member of, even if it had to SET ROLE first. What the catalogs of one database do not say is not seen:
functions that run with their owner's rights, and what PUBLIC may do in the server's other databases.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from gencard.controller.records.file_format import silently
from gencard.controller.records.tables.address import TableAddress
from gencard.controller.records.tables.engines import open_backend
from gencard.core.errors import RoleNotReadOnlyError

_ROLES = """WITH roles AS (
    SELECT oid, pg_catalog.quote_ident(rolname) AS name, rolname = session_user AS own,
        rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolname LIKE 'pg\\_%' AS powerful
    FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER')
)
"""

_MEMBERSHIPS = """SELECT name, own, powerful,
    EXISTS (
        SELECT FROM pg_catalog.pg_shdepend
        WHERE refobjid = oid AND refclassid = 'pg_catalog.pg_authid'::regclass AND deptype = 'o'
    ),
    ARRAY(
        SELECT direct.name
        FROM pg_catalog.pg_auth_members AS link
        JOIN roles AS one ON one.oid = link.member AND one.own
        JOIN roles AS direct ON direct.oid = link.roleid
        WHERE pg_catalog.pg_has_role(direct.oid, roles.oid, 'MEMBER')
        ORDER BY 1
    )
FROM roles ORDER BY own DESC, name"""
"""The session's role, then those that it can act as, and by which of its memberships."""

_GRANTS = """, grantees AS (SELECT oid, name FROM roles UNION ALL SELECT 0, 'PUBLIC'),
relations AS (
    SELECT pg_class.oid, nspname, relname, relacl, relowner, relkind = 'S' AS counts
    FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
),
objects AS (
    SELECT nspname, relname, '' AS part,
        CASE WHEN counts THEN 'SEQUENCE ' ELSE 'TABLE ' END
            || pg_catalog.format('%I.%I', nspname, relname) AS place,
        coalesce(relacl, acldefault(CASE WHEN counts THEN 's' ELSE 'r' END::"char", relowner)) AS acl
    FROM relations
    UNION ALL
    SELECT nspname, relname, pg_catalog.format(' (%I)', attname),
        pg_catalog.format('TABLE %I.%I', nspname, relname), attacl
    FROM relations JOIN pg_catalog.pg_attribute ON attrelid = relations.oid
    WHERE attacl IS NOT NULL AND NOT attisdropped
    UNION ALL
    SELECT nspname, '', '', pg_catalog.format('SCHEMA %I', nspname),
        coalesce(nspacl, acldefault('n', nspowner))
    FROM pg_catalog.pg_namespace
    UNION ALL
    SELECT '', '', '', pg_catalog.format('DATABASE %I', datname),
        coalesce(datacl, acldefault('d', datdba))
    FROM pg_catalog.pg_database WHERE datname = current_database()
)
SELECT DISTINCT nspname, relname, place, privilege_type || part, name
FROM objects, pg_catalog.aclexplode(acl) JOIN grantees ON grantees.oid = grantee
WHERE grantee <> 0 OR nspname NOT IN ('pg_catalog', 'information_schema')
ORDER BY 3, 4, 5"""
"""Rights that were given to one of the roles or to PUBLIC; what PUBLIC has in the catalogs is usual."""

_HARMLESS = {"USAGE of SCHEMA", "CONNECT of DATABASE", "TEMPORARY of DATABASE"}


class Role(NamedTuple):
    """A role that the session can act as; all names are quoted as in SQL.

    Args:
        own: The one that it logged in as.
        powerful: May do all, make roles or databases, or replicate; or is predefined (pg_...).
        owner: Owns something in some database of the server.
        through: Memberships of its own by which the session has it.
    """

    name: str
    own: bool
    powerful: bool
    owner: bool
    through: list[str]


class Right(NamedTuple):
    """A right on a place such as ``TABLE public.people``; ``holder`` is a role or PUBLIC."""

    schema: str
    table: str
    place: str
    privilege: str
    holder: str


def check_role(
    address: TableAddress, secret: str, dataset: str, declared: Iterable[TableAddress]
) -> None:
    """The role of an address reads the declared tables of its database, and can do nothing else there.

    Args:
        dataset: Named in the error.
        declared: Addresses of the settings; those of the same role and database count.

    Raises:
        RoleNotReadOnlyError: It may write, or see more; names the statements that change it.
        DatasetUnavailableError: The database cannot be reached.
    """
    with open_backend(address, secret) as backend:
        roles = [
            Role(*row) for row in silently(lambda: backend.con.execute(_ROLES + _MEMBERSHIPS).fetchall())
        ]
        rights = [
            Right(*row) for row in silently(lambda: backend.con.execute(_ROLES + _GRANTS).fetchall())
        ]
    tables = {one.schema_and_name for one in declared if one.session == address.session}
    excess = [right for right in rights if _is_too_much(right, tables)]
    # what owners and superusers may do besides is not listed, too: it ends with what they are
    problems = dict(_by_role(roles)) or dict(_by_right(excess, roles))
    if problems:
        statements = "; ".join(dict.fromkeys(problems.values()))
        raise RoleNotReadOnlyError(
            dataset=dataset,
            role=roles[0].name,
            problem=", ".join(problems),
            advice=f"Steward: let the database's administrator run: {statements}",
        )


def _is_too_much(right: Right, tables: Collection[tuple[str, str]]) -> bool:
    kind, privilege = right.place.partition(" ")[0], right.privilege.partition(" ")[0]
    if privilege == "SELECT" and (right.schema, right.table) in tables:
        return False
    return f"{privilege} of {kind}" not in _HARMLESS


def _by_role(roles: Sequence[Role]) -> Iterator[tuple[str, str]]:
    """What is wrong with a role itself, and the statement against it."""
    own = roles[0]
    if own.powerful:
        change = f"ALTER ROLE {own.name} NOSUPERUSER NOCREATEROLE NOCREATEDB NOREPLICATION"
        yield "it is a superuser, or may make roles or databases or replicate", change
        return
    if own.owner:
        yield "it owns objects", f"REASSIGN OWNED BY {own.name} TO another role"
    for role in roles[1:]:
        if role.powerful or role.owner:
            yield f"it is a member of {role.name}, which may write", _leave(role, own)


def _by_right(rights: Iterable[Right], roles: Sequence[Role]) -> Iterator[tuple[str, str]]:
    """What was given by place and holder, and the statement against it."""
    by_name, own = {role.name: role for role in roles}, roles[0]
    given: dict[tuple[str, str], list[str]] = defaultdict(list)
    for right in rights:
        given[right.place, right.holder].append(right.privilege)
    for (place, holder), privileges in given.items():
        what = f"{', '.join(privileges)} ON {place}"
        if holder in by_name and holder != own.name:
            yield f"{what} as a member of {holder}", _leave(by_name[holder], own)
        else:
            yield f"{what} by {holder}", f"REVOKE {what} FROM {holder}"


def _leave(role: Role, own: Role) -> str:
    return f"REVOKE {', '.join(role.through)} FROM {own.name}"

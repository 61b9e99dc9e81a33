"""Rights of an address's role in PostgreSQL, from the catalogs: no record is read.

All rights count: of the role itself, of all roles (PUBLIC), and of a role that it is a member of, even
if it has to SET ROLE first. A function that runs with its owner's rights (SECURITY DEFINER) may do
everything that its owner may, so the role may execute none. The catalogs of one database do not show the
rights of PUBLIC in the server's other databases, which are therefore not checked.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from gencard.controller.records.databases import open_backend
from gencard.controller.records.file_format import silently
from gencard.controller.records.table_address import TableAddress
from gencard.core.errors import RoleNotReadOnlyError

_ROLES = """WITH roles AS (
    SELECT oid, pg_catalog.quote_ident(rolname) AS name, rolname = session_user AS own,
        rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls
            OR rolname LIKE 'pg\\_%' AS powerful
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
"""Query of the session's role, then of roles that it can act as, and by which of its memberships."""

_GRANTS = """, grantees AS (SELECT oid, name FROM roles UNION ALL SELECT 0, 'PUBLIC'),
relations AS (
    SELECT pg_class.oid, nspname, relname, relacl, relowner, relkind = 'S' AS counts
    FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
),
objects AS (
    SELECT 'pg_catalog.pg_class'::regclass AS catalog, oid, 0 AS subid, nspname, relname, '' AS part,
        CASE WHEN counts THEN 'SEQUENCE ' ELSE 'TABLE ' END
            || pg_catalog.format('%I.%I', nspname, relname) AS place,
        coalesce(relacl, acldefault(CASE WHEN counts THEN 's' ELSE 'r' END::"char", relowner)) AS acl
    FROM relations
    UNION ALL
    SELECT 'pg_catalog.pg_class'::regclass, relations.oid, attnum, nspname, relname,
        pg_catalog.format(' (%I)', attname),
        pg_catalog.format('TABLE %I.%I', nspname, relname), attacl
    FROM relations JOIN pg_catalog.pg_attribute ON attrelid = relations.oid
    WHERE attacl IS NOT NULL AND NOT attisdropped
    UNION ALL
    SELECT 'pg_catalog.pg_proc'::regclass, pg_proc.oid, 0, nspname, '', '',
        CASE prokind WHEN 'p' THEN 'PROCEDURE ' ELSE 'FUNCTION ' END || pg_catalog.format(
            '%I.%I(%s)', nspname, proname, pg_catalog.pg_get_function_identity_arguments(pg_proc.oid)
        ),
        coalesce(proacl, acldefault('f', proowner))
    FROM pg_catalog.pg_proc JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pronamespace
    WHERE prosecdef OR proacl IS NOT NULL AND nspname IN ('pg_catalog', 'information_schema')
    UNION ALL
    SELECT 'pg_catalog.pg_namespace'::regclass, oid, 0, nspname, '', '',
        pg_catalog.format('SCHEMA %I', nspname),
        coalesce(nspacl, acldefault('n', nspowner))
    FROM pg_catalog.pg_namespace
    UNION ALL
    SELECT 'pg_catalog.pg_database'::regclass, oid, 0, '', '', '',
        pg_catalog.format('DATABASE %I', datname),
        coalesce(datacl, acldefault('d', datdba))
    FROM pg_catalog.pg_database WHERE datname = current_database()
)
SELECT DISTINCT nspname, relname, place, item.privilege_type || part, name
FROM objects, pg_catalog.aclexplode(acl) AS item JOIN grantees ON grantees.oid = item.grantee
WHERE item.grantee <> 0 OR nspname NOT IN ('pg_catalog', 'information_schema')
OR nspname = 'pg_catalog' AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_init_privs AS usual, pg_catalog.aclexplode(initprivs) AS given
    WHERE (usual.classoid, usual.objoid, usual.objsubid) = (catalog, objects.oid, subid)
    AND (given.grantee, given.privilege_type) = (0, item.privilege_type)
)
ORDER BY 3, 4, 5"""
"""Query of rights given to one of the roles or to PUBLIC, without PUBLIC's initial rights.

Functions are functions that run as their owner, and functions of the catalogs that PUBLIC may not
execute.
"""

_HARMLESS = {"USAGE of SCHEMA", "CONNECT of DATABASE", "TEMPORARY of DATABASE"}


class SessionRole(NamedTuple):
    """A role that the session can act as; all names are quoted as in SQL.

    Args:
        powerful: Whether the role is a superuser, may make roles or databases, replicate, or bypass row
            security, or is predefined (pg_...).
        owner: Whether the role owns an object in a database of the server.
        through: Memberships of the session's own role by which it can act as this role.
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
    """Check that an address's role can read the declared tables of its database, and nothing else.

    Args:
        declared: Addresses of the settings; addresses of the same role and database count.

    Raises:
        RoleNotReadOnlyError: The role may write, or see more; the error names the statements that change
            it.
        DatasetUnavailableError: The database cannot be reached.
    """
    with open_backend(address, secret) as backend:
        memberships = silently(lambda: backend.con.execute(_ROLES + _MEMBERSHIPS).fetchall())
        grants = silently(lambda: backend.con.execute(_ROLES + _GRANTS).fetchall())
    roles, rights = [SessionRole(*row) for row in memberships], [Right(*row) for row in grants]
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


def _by_role(roles: Sequence[SessionRole]) -> Iterator[tuple[str, str]]:
    """Yield the problems of a role itself, each with the statement against it."""
    own = roles[0]
    if own.powerful:
        problem = "it is a superuser, or may make roles or databases, replicate or bypass row security"
        limits = "NOSUPERUSER NOCREATEROLE NOCREATEDB NOREPLICATION NOBYPASSRLS"
        yield problem, f"ALTER ROLE {own.name} {limits}"
        return
    if own.owner:
        yield "it owns objects", f"REASSIGN OWNED BY {own.name} TO another role"
    for role in roles[1:]:
        if role.powerful or role.owner:
            yield f"it is a member of {role.name}, which may write or see more", _leave(role, own)


def _by_right(rights: Iterable[Right], roles: Sequence[SessionRole]) -> Iterator[tuple[str, str]]:
    """Yield the rights that were given, by place and holder, each with the statement against it."""
    by_name, own = {role.name: role for role in roles}, roles[0]
    privileges_by_holder: dict[tuple[str, str], list[str]] = defaultdict(list)
    for right in rights:
        privileges_by_holder[right.place, right.holder].append(right.privilege)
    for (place, holder), privileges in privileges_by_holder.items():
        what = f"{', '.join(privileges)} ON {place}"
        if holder in by_name and holder != own.name:
            yield f"{what} as a member of {holder}", _leave(by_name[holder], own)
        else:
            yield f"{what} by {holder}", f"REVOKE {what} FROM {holder}"


def _leave(role: SessionRole, own: SessionRole) -> str:
    return f"REVOKE {', '.join(role.through)} FROM {own.name}"

"""What every method asks of psi before it works, and the checks of its own settings."""

from collections.abc import Sequence

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Domain
from gencard.core.errors import InvalidNumberError, InvalidPsiError
from gencard.core.statistics.consistency import check_consistent
from gencard.core.statistics.psi import Psi
from gencard.core.statistics.reconcile import reconcile


def admitted(psi: Psi, domain: Domain) -> Psi:
    """What is fitted: exact psi as it stands, noisy psi reconciled; its marginals agree.

    Raises:
        InvalidPsiError: psi does not belong to the domain, it is exact and contradicts itself, or it
            holds linear statistics, which most methods cannot take.
        TooLargeError: The cliques are too wide to compare.
    """
    if psi.linear:
        raise InvalidPsiError(problem="this generator accepts marginals only, no linear statistics")
    check_belongs(psi, domain)
    return psi if psi.exact else reconcile(psi)


def check_belongs(psi: Psi, domain: Domain) -> None:
    """Refuse a psi that is not one of the domain, or that is exact and contradicts itself.

    Raises:
        InvalidPsiError: See above; linear statistics are allowed.
        TooLargeError: The cliques are too wide to compare.
    """
    for name, size in zip(psi.domain.attributes, psi.domain.sizes, strict=True):
        if name not in domain or domain.size(name) != size:
            raise InvalidPsiError(problem=f"'{name}' does not match its declaration in the domain")
    if not all(measurement.clique for measurement in psi.measurements):
        raise InvalidPsiError(problem="a measurement names no attribute")
    if psi.exact:
        check_consistent(psi)


def zeros_inside(zeros: Sequence[StructuralZeros], domain: Domain) -> tuple[StructuralZeros, ...]:
    """The structural zeros that speak of the domain's attributes alone; the others say nothing."""
    return tuple(zero for zero in zeros if set(zero.clique) <= set(domain.attributes))


def check_settings(tolerance: float = 1.0, **bounds: int) -> None:
    """Raises InvalidNumberError where the tolerance is not positive or a bound is below 1."""
    if not tolerance > 0:
        raise InvalidNumberError(field="tolerance", expected="above zero")
    for name, bound in bounds.items():
        if bound < 1:
            raise InvalidNumberError(field=name, expected="at least 1")

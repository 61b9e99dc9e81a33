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
        InvalidPsiError: psi does not belong to the domain, or it is exact and contradicts itself.
        TooLargeError: The cliques are too wide to compare.
    """
    for name, size in zip(psi.domain.attributes, psi.domain.sizes, strict=True):
        if name not in domain or domain.size(name) != size:
            raise InvalidPsiError(problem=f"'{name}' is not so declared in the domain")
    if not all(measurement.clique for measurement in psi.measurements):
        raise InvalidPsiError(problem="a measurement names no attribute")
    if not psi.exact:
        return reconcile(psi)
    check_consistent(psi)
    return psi


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

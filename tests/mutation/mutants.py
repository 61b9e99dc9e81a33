"""All mutants."""

from tests.mutation import guard, ledger, measure, noise, replay, verdict
from tests.mutation.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = tuple(
    mutant for room in (ledger, guard, measure, noise, verdict, replay) for mutant in room.MUTANTS
)
ROOMS: tuple[str, ...] = tuple(dict.fromkeys(mutant.room for mutant in MUTANTS))

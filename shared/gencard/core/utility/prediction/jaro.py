r"""Jaro's similarity of two sequences, such as two orders of the same attributes.

Symbols match where they are equal and at most :math:`\lfloor \max(|a|, |b|) / 2 \rfloor - 1` places
apart; with m matches, t of which stand in another order,

.. math:: \frac{1}{3} \Big( \frac{m}{|a|} + \frac{m}{|b|} + \frac{m - t / 2}{m} \Big)

and 0 without a match. Half of t is not rounded down, as in the code that made Table 3 of Houssiau et al.
(2022) and unlike most libraries; nor are two sequences of one symbol ever found similar.

References:
    M. Jaro, "Advances in Record-Linkage Methodology as Applied to Matching the 1985 Census of Tampa,
    Florida", Journal of the American Statistical Association 84, 1989.
"""

from collections.abc import Hashable, Sequence


def jaro(one: Sequence[Hashable], other: Sequence[Hashable]) -> float:
    """Similarity from 0 to 1; 1 where both are empty.

    >>> jaro(["age", "sex", "region", "work"], ["sex", "age", "region", "work"])
    0.9166666666666666
    """
    if not one and not other:
        return 1.0
    pairs = _matches(one, other)
    if not pairs:
        return 0.0
    in_order = zip(pairs, sorted(place for _, place in pairs), strict=True)
    moved = sum(one[ours] != other[place] for (ours, _), place in in_order)
    matched = len(pairs)
    return (matched / len(one) + matched / len(other) + (matched - moved / 2) / matched) / 3


def _matches(one: Sequence[Hashable], other: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Places of the symbols that match, in the order of ``one``; each is used once."""
    apart = max(len(one), len(other)) // 2 - 1
    taken: set[int] = set()
    pairs = []
    for place, symbol in enumerate(one):
        near = range(max(0, place - apart), min(place + apart + 1, len(other)))
        found = next((at for at in near if at not in taken and other[at] == symbol), None)
        if found is not None:
            taken.add(found)
            pairs.append((place, found))
    return pairs

"""Trees and proofs against the definitions of RFC 9162, written out word by word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.errors import InvalidNumberError, VerificationError
from gencard.wire import log as merkle
from gencard.wire.log import check_consistency, check_inclusion, leaf_hash, node_hash

ENTRIES = [b"entry %d" % number for number in range(40)]


def split(entries):
    """Section 2.1.1: the largest power of two smaller than n."""
    k = 1
    while 2 * k < len(entries):
        k *= 2
    return k


def root(entries):
    """Section 2.1.1: MTH(D_n)."""
    if not entries:
        return merkle.EMPTY
    if len(entries) == 1:
        return leaf_hash(entries[0])
    k = split(entries)
    return node_hash(root(entries[:k]), root(entries[k:]))


def inclusion(m, entries):
    """Section 2.1.3.1: PATH(m, D_n)."""
    if len(entries) == 1:
        return []
    k = split(entries)
    if m < k:
        return [*inclusion(m, entries[:k]), root(entries[k:])]
    return [*inclusion(m - k, entries[k:]), root(entries[:k])]


def consistency(m, entries, whole=True):
    """Section 2.1.4.1: SUBPROOF(m, D_n, b)."""
    if m == len(entries):
        return [] if whole else [root(entries)]
    k = split(entries)
    if m <= k:
        return [*consistency(m, entries[:k], whole), root(entries[k:])]
    return [*consistency(m - k, entries[k:], False), root(entries[:k])]


def node(level, position):
    return root(ENTRIES[position << level : (position + 1) << level])


SIZES = st.integers(1, len(ENTRIES))


@pytest.mark.parametrize("size", range(len(ENTRIES) + 1))
def test_roots_are_those_of_the_definition(size):
    expected = root(ENTRIES[:size])
    assert merkle.root(node, size) == expected
    assert merkle.Peaks(map(leaf_hash, ENTRIES[:size])).root() == expected


def test_known_answers():
    """The vectors of certificate-transparency: no entry, one empty entry, two entries."""
    assert merkle.EMPTY.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert leaf_hash(b"").hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    two = root([b"", b"\x00"])
    assert two.hex() == "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"


@pytest.mark.parametrize("size", range(1, len(ENTRIES) + 1))
def test_every_entry_is_proved_and_only_at_its_place(size):
    whole = root(ENTRIES[:size])
    for index in range(size):
        path = merkle.inclusion_path(node, index, size)
        assert path == inclusion(index, ENTRIES[:size])
        check_inclusion(leaf_hash(ENTRIES[index]), index, size, path, whole)
        for other in {0, index - 1, index + 1, size - 1, size} - {index}:
            with pytest.raises(VerificationError):
                check_inclusion(leaf_hash(ENTRIES[index]), other, size, path, whole)


@pytest.mark.parametrize("new", range(1, len(ENTRIES) + 1))
def test_every_beginning_is_proved(new):
    for old in range(1, new + 1):
        path = merkle.consistency_path(node, old, new)
        assert path == consistency(old, ENTRIES[:new])
        check_consistency(old, new, path, root(ENTRIES[:old]), root(ENTRIES[:new]))


@st.composite
def tampered(draw, path):
    """The path with a bit flipped, or a hash dropped, doubled or added."""
    path = list(path)
    kind = draw(st.sampled_from(["flip", "drop", "double"] if path else ["add"]))
    if kind == "add":
        return [draw(st.binary(min_size=32, max_size=32))]
    place = draw(st.integers(0, len(path) - 1))
    if kind == "flip":
        changed = bytearray(path[place])
        changed[draw(st.integers(0, 31))] ^= 1 << draw(st.integers(0, 7))
        return [*path[:place], bytes(changed), *path[place + 1 :]]
    if kind == "drop":
        return path[:place] + path[place + 1 :]
    return [*path[: place + 1], *path[place:]]


@given(SIZES, st.data())
def test_a_tampered_inclusion_proof_proves_nothing(size, data):
    index = data.draw(st.integers(0, size - 1))
    path = data.draw(tampered(merkle.inclusion_path(node, index, size)))
    with pytest.raises(VerificationError) as refused:
        check_inclusion(leaf_hash(ENTRIES[index]), index, size, path, root(ENTRIES[:size]))
    assert f"entry {index} " in str(refused.value)


@given(SIZES, st.data())
def test_a_tampered_consistency_proof_proves_nothing(new, data):
    old = data.draw(st.integers(1, new))
    path = data.draw(tampered(merkle.consistency_path(node, old, new)))
    with pytest.raises(VerificationError):
        check_consistency(old, new, path, root(ENTRIES[:old]), root(ENTRIES[:new]))


@given(SIZES, st.data())
def test_a_forked_log_is_never_consistent(new, data):
    """One entry of the old part differs: no proof that the forked tree can make joins the two."""
    old = data.draw(st.integers(1, new))
    place = data.draw(st.integers(0, old - 1))
    forked = [*ENTRIES[:place], b"forged", *ENTRIES[place + 1 : new]]
    path = consistency(old, forked)
    with pytest.raises(VerificationError):
        check_consistency(old, new, path, root(ENTRIES[:old]), root(forked))


@pytest.mark.parametrize(("index", "size"), [(-1, 4), (4, 4), (0, 0), (5, 2)])
def test_there_is_no_proof_of_what_is_not_there(index, size):
    with pytest.raises(InvalidNumberError):
        merkle.inclusion_path(node, index, size)
    with pytest.raises(VerificationError):
        check_inclusion(leaf_hash(b""), index, size, [], leaf_hash(b""))


@pytest.mark.parametrize(("old", "new"), [(0, 3), (3, 2), (-1, 2), (0, 0)])
def test_there_is_no_proof_between_sizes_out_of_order(old, new):
    with pytest.raises(InvalidNumberError):
        merkle.consistency_path(node, old, new)
    with pytest.raises(VerificationError):
        check_consistency(old, new, [], merkle.EMPTY, merkle.EMPTY)

"""Identities: the URI in a certificate, in one form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.errors import UnauthenticatedError
from gencard.wire.keys import Identity, Role

identities = st.builds(
    Identity,
    st.from_regex(r"[a-z0-9.-]{1,100}", fullmatch=True),
    st.from_regex(r"[a-z0-9-]{1,63}", fullmatch=True),
    st.sampled_from(Role),
    st.from_regex(r"[a-z0-9._-]{1,63}", fullmatch=True),
)


@given(identities)
def test_what_is_written_is_read(identity):
    assert Identity.of(identity.uri) == identity


def test_by_hand():
    ana = Identity.of("spiffe://gencard.local/pilot/analyst/ana")
    assert ana == Identity("gencard.local", "pilot", Role.ANALYST, "ana")


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "ana",
        "https://gencard.local/pilot/analyst/ana",
        "spiffe://gencard.local/pilot/analyst",
        "spiffe://gencard.local/pilot/analyst/ana/",
        "spiffe://gencard.local/pilot/analyst/ana/steward",
        "spiffe://gencard.local/pilot/analyst/ana\n",
        " spiffe://gencard.local/pilot/analyst/ana",
        "spiffe://gencard.local/pilot/Analyst/ana",
        "spiffe://gencard.local/pilot/root/ana",
        "spiffe://gencard.local//analyst/ana",
        "spiffe://gencard.local/pilot/analyst/../steward/sam",
        "spiffe://gencard.local/pilot/analyst/аna",
        "spiffe://gencard.local/pilot/analyst/" + "a" * 64,
        "SPIFFE://gencard.local/pilot/analyst/ana",
    ],
)
def test_another_form_is_nobody(uri):
    with pytest.raises(UnauthenticatedError):
        Identity.of(uri)


@given(st.text(max_size=50))
def test_any_text_is_nobody(text):
    with pytest.raises(UnauthenticatedError):
        Identity.of(text)

"""Saved documents with any byte changed: ``verify`` refuses each, and so does what else reads them."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.client.answers.answering import answer_of_bundle
from gencard.client.checking.bundle import Bundle, Keys, Outcome, rebuild, verify
from gencard.client.common.arguments import AnalystQuestion
from gencard.client.connection.credentials import public_key
from gencard.core.errors import GencardError
from gencard.wire.keys import CARDS, LOG, KeyHistory
from tests.golden.files import BUNDLES, FOLDER

NOW = datetime(2026, 12, 1, tzinfo=UTC)
READ_BY_REPLAY = {"card.json", "keys.json", "psi.json", "receipt.json", "schema.json"}
FILES = [
    ("ipf", "card.json"),
    ("ipf", "checkpoint.json"),
    ("ipf", "log_entry.json"),
    ("ipf", "psi.json"),
    ("ipf", "receipt.json"),
    ("ipf", "schema.json"),
    ("moments", "psi.json"),
    ("gaussian", "psi.json"),
    ("after-rotation", "keys.json"),
    ("after-rotation", "card.json"),
    ("audited", "verdict.json"),
]
SIGNED = [
    one for one in FILES if one[1] in ("card.json", "checkpoint.json", "receipt.json", "verdict.json")
]


@pytest.fixture(scope="module")
def keys() -> Keys:
    person = FOLDER / "people" / "ana"
    return Keys(
        KeyHistory(public_key(person / "controller_card_key.pub", "k"), CARDS),
        (public_key(person / "signing_key.pub", "k"),),
        KeyHistory(public_key(person / "log_key.pub", "k"), LOG),
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A copy of a bundle in which one file has other bytes."""
    folder = tmp_path_factory.mktemp("changed")

    def changed(bundle: str, name: str, content: bytes) -> Path:
        copy = folder / bundle
        if not copy.exists():
            shutil.copytree(BUNDLES / bundle, copy)
        for file in (BUNDLES / bundle).iterdir():
            (copy / file.name).write_bytes(content if file.name == name else file.read_bytes())
        return copy

    return changed


def is_refused(folder: Path, keys: Keys) -> bool:
    """Whether ``verify`` refuses a folder."""
    try:
        checks = verify(Bundle.of([folder]), keys, NOW)
    except GencardError:
        return True
    return any(check.outcome is Outcome.FAILED for check in checks)


def is_not_replayed(folder: Path, keys: Keys) -> bool:
    try:
        bundle = Bundle.of([folder])
        if not bundle.damaged:  # as the shell does
            rebuild(bundle, keys)
            return False
    except GencardError:
        pass
    return True


def refuse_all(folder: Path, name: str, keys: Keys) -> None:
    """Raise AssertionError if a reader of the changed file accepts it."""
    assert is_refused(folder, keys)
    if name in READ_BY_REPLAY:
        assert is_not_replayed(folder, keys)


def in_other_forms(content: bytes) -> list[bytes]:
    """The same JSON value in other bytes, or nearly the same value."""
    value = json.loads(content)
    first = next(iter(value))
    again = (
        b"{" + json.dumps(first).encode() + b":" + json.dumps(value[first]).encode() + b"," + content[1:]
    )
    letter = json.dumps(first).encode()
    escaped = b'"\\u%04x' % letter[1] + letter[2:]
    forms = [
        content + b"\n",
        content + b"\0",
        content + content,
        b" " + content,
        b"\xef\xbb\xbf" + content,
        content.decode().encode("utf-16"),
        json.dumps(value).encode(),
        json.dumps(value, indent=2).encode(),
        json.dumps(dict(reversed(value.items())), separators=(",", ":")).encode(),
        json.dumps({**value, "more": ""}, sort_keys=True, separators=(",", ":")).encode(),
        json.dumps({**value, "": None}, sort_keys=True, separators=(",", ":")).encode(),
        again,
        content.replace(letter, escaped, 1),
        content.replace(b",", b", ", 1),
        content.replace(b':"', b': "', 1),
        content[:-1],
        b"[" + content + b"]",
    ]
    return [form for form in forms if form != content]


def test_the_files_are_right_as_they_are(saved, keys):
    for bundle, name in FILES:
        folder = saved(bundle, name, (BUNDLES / bundle / name).read_bytes())
        assert not is_refused(folder, keys)
        assert bundle == "audited" or not is_not_replayed(folder, keys)


@pytest.mark.parametrize(("bundle", "name"), FILES)
def test_another_form_of_the_same_document_is_refused(saved, keys, bundle, name):
    content = (BUNDLES / bundle / name).read_bytes()
    for other in in_other_forms(content):
        refuse_all(saved(bundle, name, other), name, keys)


@pytest.mark.parametrize(("bundle", "name"), FILES)
def test_any_byte_that_is_changed_is_refused(saved, keys, bundle, name):
    content = (BUNDLES / bundle / name).read_bytes()

    @settings(max_examples=60, deadline=None)
    @given(
        place=st.integers(0, len(content)),
        part=st.one_of(st.just(b""), st.binary(min_size=1, max_size=2)),
        removed=st.sampled_from([0, 1]),
    )
    def change(place: int, part: bytes, removed: int) -> None:
        other = content[:place] + part + content[place + removed :]
        if other != content:
            refuse_all(saved(bundle, name, other), name, keys)

    change()


@pytest.mark.parametrize("name", ["psi.json", "schema.json", "card.json"])
def test_an_answer_from_saved_psi_reads_no_other_form(saved, name):
    """Even without keys, where only digests are compared."""
    question = AnalystQuestion.of("health ~ sex", "crosstab", {})
    content = (BUNDLES / "ipf" / name).read_bytes()
    assert answer_of_bundle(Bundle.of([saved("ipf", name, content)]), None, question)
    for other in in_other_forms(content):
        with pytest.raises(GencardError):
            answer_of_bundle(Bundle.of([saved("ipf", name, other)]), None, question)


@pytest.mark.parametrize("entries", ["again", "extra", "reordered", "one less", "exchanged"])
@pytest.mark.parametrize(("bundle", "name"), SIGNED)
def test_signatures_are_one_for_each_signer(saved, keys, bundle, name, entries):
    document = json.loads((BUNDLES / bundle / name).read_bytes())
    signed = document["signatures"]
    document["signatures"] = {
        "again": [*signed, signed[0]],
        "extra": [*signed, {"keyid": "ab" * 32, "sig": signed[0]["sig"]}],
        "reordered": [*reversed(signed)],
        "one less": signed[1:],
        "exchanged": [{**signed[0], "keyid": signed[-1]["keyid"]}, *signed[1:]],
    }[entries]
    content = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    if content != (BUNDLES / bundle / name).read_bytes():
        refuse_all(saved(bundle, name, content), name, keys)

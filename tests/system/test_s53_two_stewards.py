"""S53, S54, S55: one steward alone, a second self, and a decision on what has changed since."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from typer.testing import CliRunner

from gencard.client.connection.credentials import new_request
from gencard.controller.people.enrolment import examined
from gencard.controller.shell.main import app as shell
from gencard.controller.state import results, stewards
from gencard.controller.state.log import event_of
from gencard.controller.state.results import RunRow, RunTier
from gencard.controller.state.stewards import LIFE
from gencard.controller.stewards.desk import DecisionChannel
from gencard.core.errors import InvalidInputError, SecondStewardError, StaleEtagError
from gencard.core.policy import TwoStewards
from gencard.wire.dsse import key_id
from gencard.wire.keys import Identity, Role, request_document, request_of_document
from gencard.wire.steward import Action, Kind
from tests.system.house import build, request_id
from tests.system.people import steward
from tests.system.raw_calls import enrolled
from tests.system.stewards import Caller, Steward, digest_of_decision

ANA = "spiffe://gencard.local/pilot/analyst/ana"
SAM = "spiffe://gencard.local/pilot/steward/{}"


def new_tls():
    return ec.generate_private_key(ec.SECP256R1())


def key_in(file):
    return load_pem_private_key(file.read_bytes(), password=None)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """Two stewards decide on everything, and sam, sue and sid are stewards."""
    house = build(tmp_path_factory.mktemp("two"))
    house.edit({"automatic": "false\nstewards = 2"})
    for name in ("sue", "sid"):
        enrolled(house, name, Role.STEWARD)
    yield house.start()
    house.stop()


@pytest.fixture(scope="module")
def people(house):
    return SimpleNamespace(**{name: Caller(house, name) for name in ("sam", "sue", "sid", "ana")})


@pytest.fixture
def card(house):
    with house.analyst() as ana:
        return ana.propose("survey", [("sex", "health")], purpose="A test").name


def owner(house):
    """The owner of the controller's files, who decides alone in an emergency."""
    return Steward(
        house.controller.controller_state, channel=DecisionChannel("local", "root", emergency=True)
    )


def state_of(house, name):
    state = house.controller.controller_state
    with state.database.reading() as tx:
        return str(state.cards.card(tx, name).state)


def events_on(house, name):
    state = house.controller.controller_state
    with state.database.reading() as tx:
        events = [event_of(entry.body) for entry in state.log.entries(tx)]
    return [event for event in events if event.resource == name]


class TestS53:
    def test_s53_the_second_decision_on_the_same_digest_has_the_effect(self, house, people, card):
        seen = people.sam.get("GetReview", name=card)
        assert (seen.two, seen.offer.dataset) == (True, "datasets/survey")
        first = people.sam.decide("approve", card, shown=seen.shown, reason="harmless")
        assert (first.done, list(first.by), state_of(house, card)) == (
            False, [events_on(house, card)[-1].actor], "requested",
        )  # fmt: skip
        (waiting,) = people.sue.get("GetReview", name=card).firsts
        assert (waiting.digest, waiting.reason) == (digest_of_decision(first), "harmless")
        second = people.sue.decide("approve", card, shown=seen.shown)
        assert (second.done, digest_of_decision(second), len(second.by)) == (
            True, digest_of_decision(first), 2,
        )  # fmt: skip
        assert state_of(house, card) == "offered"
        *_, opened, decided, offered = events_on(house, card)
        assert [one.action for one in (opened, decided, offered)] == ["decide-first", "decide", "offer"]
        assert decided.details["first"] == "pilot/steward/sam"
        assert decided.details["shown"] == opened.details["shown"] == seen.shown
        assert people.sid.decide("approve", card, shown=seen.shown) == "STALE_ETAG"

    def test_s53_one_steward_alone_is_not_two(self, house, people, card):
        assert not people.sam.decide("approve", card).done
        assert people.sam.decide("approve", card) == "SECOND_STEWARD"
        assert not people.sam.decide("counter", card, rows=50).done
        assert state_of(house, card) == "requested"

    def test_s53_who_refuses_needs_nobody_else(self, house, people, card):
        assert people.sam.decide("reject", card).done
        assert state_of(house, card) == "terminated"

    def test_s53_two_who_decide_differently_have_not_agreed(self, house, people, card):
        assert not people.sam.decide("counter", card, rows=50).done
        assert not people.sue.decide("counter", card, rows=60).done
        assert not people.sue.decide("approve", card).done
        assert people.sid.decide("counter", card, rows=60).done
        assert state_of(house, card) == "offered"
        assert not people.sam.get("GetReview", name=card).firsts

    def test_s53_of_racing_seconds_one_has_the_effect(self, house, people, card):
        people.sam.decide("approve", card)
        shown = people.sue.get("GetReview", name=card).shown
        with ThreadPoolExecutor(8) as pool:
            endings = list(
                pool.map(
                    lambda who: who.decide("approve", card, shown=shown), [people.sue, people.sid] * 8
                )
            )
        assert sum(not isinstance(one, str) for one in endings) == 1
        assert {one for one in endings if isinstance(one, str)} == {"STALE_ETAG"}
        assert [event.action for event in events_on(house, card)].count("offer") == 1

    def test_s53_a_repeated_request_is_answered_and_not_done_again(self, house, people, card):
        shown, request = people.sam.get("GetReview", name=card).shown, request_id()
        answers = [people.sam.decide("approve", card, shown=shown, uuid=request) for _ in range(3)]
        assert answers[0] == answers[1] == answers[2]
        assert [event.action for event in events_on(house, card)].count("decide-first") == 1
        reused = people.sam.decide("reject", card, shown=shown, uuid=request)
        assert reused == "REQUEST_ID_REUSED"

    def test_s53_a_steward_disabled_meanwhile_no_longer_counts(self, house, people, card):
        assert not people.sid.decide("approve", card).done
        assert not people.sam.decide("disable", "people/sid").done
        assert people.sue.decide("disable", "people/sid").done
        try:
            assert people.sid.decide("approve", card, shown="x") == "UNAUTHENTICATED"
            assert not people.sue.decide("approve", card).done
            assert state_of(house, card) == "requested"
            assert people.sam.decide("approve", card).done
        finally:
            owner(house).decide(Kind.ENABLE, "people/sid")

    def test_s53_a_first_decision_waits_no_longer_than_two_weeks(self, house, people, card):
        state = house.controller.controller_state
        people.sam.decide("approve", card)
        later = state.cards.clock() + LIFE + timedelta(seconds=1)
        with state.database.reading() as tx:
            assert stewards.waiting_first_decisions(tx, state.cards.clock(), {card})
            assert not stewards.waiting_first_decisions(tx, later, {card})

    def test_s53_nobody_is_asked_to_agree_to_what_cannot_be_done(self, house, people, card):
        assert people.sam.decide("counter", card, drop=[["sex", "work"]]) == "INVALID_INPUT"
        assert not people.sam.get("GetReview", name=card).firsts

    def test_s53_the_queue_says_for_whom_a_card_waits(self, people, card):
        people.sam.decide("approve", card)
        queue = people.sue.get("ListQueue", page_size=500).waiting
        (entry,) = [one for one in queue if one.resource == card]
        assert (entry.kind, entry.waits_for) == ("proposal", "another steward")
        assert "approve, decided by pilot/steward/sam" in entry.text

    def test_s53_one_steward_cannot_let_in_the_second(self, house, people, tmp_path):
        """Not a new one, not a disabled one, and not by new keys in the name of another."""
        keys = new_request(tmp_path / "eve", "eve")
        theirs = {"request": keys.file.read_text(), "fingerprint": keys.fingerprint}
        asked = theirs | {"role": "steward", "project": "survey", "address": "localhost:1"}
        assert not people.sam.decide("enrol", "people/eve", **asked).done
        assert not (house.folder / "identities" / "eve.toml").exists()
        stolen = new_request(tmp_path / "sue", "sue")
        own = {"request": stolen.file.read_text(), "fingerprint": stolen.fingerprint, "again": True}
        assert not people.sam.decide("enrol", "people/sue", **own, address="localhost:1").done
        assert people.sue.decide("enrol", "people/eve", **asked).done
        assert (house.folder / "identities" / "eve.toml").exists()

    def test_s53_one_steward_alone_changes_no_people(self, house, people, tmp_path):
        """The other one is not disabled, no analyst comes in, nor back, nor with other keys."""
        keys = new_request(tmp_path / "ben", "ben")
        asked = {"request": keys.file.read_text(), "fingerprint": keys.fingerprint}
        asked |= {"role": "analyst", "project": "survey", "address": "localhost:1"}
        stolen = new_request(tmp_path / "ana", "ana")
        own = {"request": stolen.file.read_text(), "fingerprint": stolen.fingerprint, "again": True}
        deeds = [
            ("disable", "people/sue", {}),
            ("enrol", "people/ben", asked),
            ("enrol", "people/ana", {**own, "address": "localhost:1"}),
        ]
        for kind, resource, arguments in deeds:
            assert not people.sam.decide(kind, resource, **arguments).done
            assert people.sam.decide(kind, resource, **arguments) == "SECOND_STEWARD"
        queue = people.sue.get("ListQueue", page_size=500).waiting
        waiting = {(one.resource, one.waits_for) for one in queue if one.kind == "decision"}
        assert {(resource, "another steward") for _, resource, _ in deeds} <= waiting
        assert not isinstance(people.sue.get("ListPeople"), str)
        assert people.sid.decide("enrol", "people/ben", **asked).done
        assert (house.folder / "identities" / "ben.toml").exists()

    def test_s53_one_steward_disables_an_analyst_and_enables_none(self, house, people):
        enrolled(house, "cleo")
        assert people.sam.decide("disable", "people/cleo").done
        assert not people.sam.decide("enable", "people/cleo").done
        assert people.sam.decide("enable", "people/cleo") == "SECOND_STEWARD"
        assert people.sue.decide("enable", "people/cleo").done

    def test_s53_a_steward_back_again_has_decided_nothing(self, house, people, card):
        """A thief may have, which is why the steward was disabled."""
        assert not people.sid.decide("approve", card).done
        for who in (people.sam, people.sue):
            ending = who.decide("disable", "people/sid")
        assert ending.done
        for who in (people.sam, people.sue):
            ending = who.decide("enable", "people/sid")
        assert ending.done
        assert not people.sam.decide("approve", card).done
        assert state_of(house, card) == "requested"

    def test_s53_a_first_decision_with_keys_that_were_replaced_is_void(
        self, house, people, card, tmp_path
    ):
        enrolled(house, "sol", Role.STEWARD)
        assert not Caller(house, "sol").decide("approve", card).done
        keys = new_request(tmp_path / "new", "sol")
        request = {"request": keys.file.read_text(), "fingerprint": keys.fingerprint, "again": True}
        for who in (people.sam, people.sue):
            ending = who.decide("enrol", "people/sol", **request, address="localhost:1")
        assert ending.done
        assert not people.sam.decide("approve", card).done
        assert state_of(house, card) == "requested"

    @pytest.mark.parametrize("passkey", ["removed", "kept"])
    def test_s53_a_first_decision_by_a_passkey_counts_while_it_is_kept(self, house, card, passkey):
        state, who = house.controller.controller_state, Identity.of(SAM.format("sam"))
        token = state.passkeys.new_link(who.uri, who.uri)
        key = state.passkeys.add(token, card.encode(), b"public", 0).key
        desk = state.desk(DecisionChannel("page"))
        action = Action(Kind.APPROVE, card, {}, "seen", desk.card(who, card).shown)
        assert not desk.decide(who, action, request_id(), {key}).done
        if passkey == "removed":
            state.passkeys.remove(who.uri, who.uri, key)
        second = state.desk().decide(replace(who, name="sue", project="survey"), action, request_id())
        assert second.done == (passkey == "kept")

    def test_s53_nobody_decides_on_themselves(self, people, tmp_path):
        keys = new_request(tmp_path / "sam", "sam")
        own = {"request": keys.file.read_text(), "fingerprint": keys.fingerprint, "again": True}
        assert people.sam.decide("enrol", "people/sam", **own, address="localhost:1") == "SECOND_STEWARD"

    def test_s53_others_never_reach_the_desk(self, people, card):
        for method in ("GetReview", "GetAnswerReview"):
            assert people.ana.get(method, name=card) == "PERMISSION_DENIED"
        assert people.ana.decide("approve", card, shown="x") == "PERMISSION_DENIED"

    def test_s53_analysts_read_that_two_stewards_decide(self, house):
        with house.analyst() as ana:
            policy = ana.dataset("survey").policy
        assert dict(policy.lines())["Two stewards decide"] == "exact-counts, reviewed-runs, revocation"


class TestSingleRules:
    """Policies that name kinds of decisions, and settings for decisions on the whole controller."""

    @pytest.fixture
    def ruled(self, house):
        """Sets ``two_stewards`` of the policy in force, and gives a desk."""
        state = house.controller.controller_state
        before = list(state.cards.catalogue)

        def ruled(*names):
            policy = replace(before[0].policy, stewards=1, two_stewards=tuple(map(TwoStewards, names)))
            state.cards.catalogue.set([replace(before[0], policy=policy), *before[1:]])
            return state.desk()

        yield ruled
        state.cards.catalogue.set(before)

    @pytest.mark.parametrize("name", ["exact-counts", "reviewed-runs", "revocation"])
    def test_s53_a_kind_that_the_policy_names_needs_two(self, house, ruled, card, name):
        run = f"{card}/answers/{'0' * 16}"
        state = house.controller.controller_state
        kept = {"dataset": "datasets/survey", "version": "", "question": "", "request": b"{}"}
        with state.database.transaction() as tx:
            row = RunRow(
                run, card, submitter=ANA, tier=RunTier.REVIEWED, created=state.cards.clock(), **kept
            )
            results.insert_result(tx, row)
        decisions = {
            "exact-counts": (Kind.APPROVE, card),
            "reviewed-runs": (Kind.RELEASE_ANSWER, run),
            "revocation": (Kind.REVOKE, card),
        }
        desk, sam = ruled(name), Identity.of(SAM.format("sam"))
        needing = {
            rule
            for rule, (kind, resource) in decisions.items()
            if desk.needs_two(sam, Action(kind, resource, {}, "seen"))
        }
        assert needing == {name}
        assert not desk.needs_two(sam, Action(Kind.REJECT, card, {}, "seen"))
        assert not desk.needs_two(sam, Action(Kind.REFUSE_ANSWER, run, {}, "seen"))
        with state.database.transaction() as tx:
            results.forget_run(tx, run)

    def test_s53_keys_are_rotated_by_two_where_the_settings_say_so(self, house, ruled):
        desk = replace(ruled(), two=frozenset({"rotation"}))
        sam, sue = (Identity.of(SAM.format(name)) for name in ("sam", "sue"))
        sue = replace(sue, project="survey")
        shown = desk.preview(sam, Kind.ROTATE, "keys/log", {}).shown
        action = Action(Kind.ROTATE, "keys/log", {}, "yearly", shown)
        assert not desk.decide(sam, action, request_id()).done
        with pytest.raises(SecondStewardError):
            desk.decide(sam, action, request_id())
        assert desk.decide(sue, action, request_id()).result["key"]
        with pytest.raises(StaleEtagError):
            desk.decide(sue, action, request_id())


class TestTheLocalWay:
    def test_s53_two_names_of_one_account_are_one_steward(self, house, card):
        state = house.controller.controller_state
        ann = [
            Steward(
                state, f"spiffe://gencard.local/service/steward/{name}", DecisionChannel("local", "ann")
            )
            for name in ("one", "two")
        ]
        assert not ann[0].decide(Kind.APPROVE, card).done
        with pytest.raises(SecondStewardError):
            ann[1].decide(Kind.APPROVE, card)
        bob = Steward(
            state, "spiffe://gencard.local/service/steward/bob", DecisionChannel("local", "bob")
        )
        assert bob.decide(Kind.APPROVE, card).done

    def test_s53_the_local_shell_asks_for_another_steward_too(self, house, card):
        first = steward(house, "emergency", "approve", card, "--reason", "harmless")
        assert first.exit_code == 0
        assert f"Two stewards must decide: {card} waits for another steward" in first.output
        other = ("emergency", "approve", card, "--config", house.settings_file, "--steward", "zoe")
        second = CliRunner().invoke(shell, [str(word) for word in other])
        assert isinstance(second.exception, SecondStewardError)
        assert state_of(house, card) == "requested"
        alone = CliRunner().invoke(shell, [*(str(word) for word in other), "--emergency"])
        assert (alone.exit_code, state_of(house, card)) == (0, "offered")
        assert "decide-emergency" in [event.action for event in events_on(house, card)]

    def test_s53_an_account_of_a_steward_s_name_is_that_steward(self, house, people, card):
        state = house.controller.controller_state
        assert not people.sue.decide("approve", card).done
        with pytest.raises(SecondStewardError):
            Steward(
                state, "spiffe://gencard.local/service/steward/x", DecisionChannel("local", "sue")
            ).decide(Kind.APPROVE, card)

    def test_s53_the_owner_of_the_files_changes_people_in_an_emergency(self, house):
        enrolled(house, "max", Role.STEWARD)
        words = ("person", "disable", "max", "--reason", "left")
        waiting = steward(house, *words)
        assert (waiting.exit_code, "waits for another steward" in waiting.output) == (0, True)
        assert steward(house, *words, "--emergency").exit_code == 0
        assert "disabled = true" in (house.folder / "identities" / "max.toml").read_text()
        assert events_on(house, "people/max")[-1].action == "decide-emergency"

    def test_s53_keys_that_the_owner_makes_are_an_emergency_too(self, house):
        words = ("person", "add", "ida", "--role", "analyst", "--keys-here")
        house.edit({"address": '"localhost:1"'})
        try:
            assert steward(house, *words).exit_code == 0
        finally:
            house.edit({"address": '"localhost:0"'})
        assert "decide-emergency" in [event.action for event in events_on(house, "people/ida")]

    def test_s53_who_sets_up_the_first_stewards_needs_no_second(self, tmp_path):
        """There is none who could agree; the log says that one decided alone."""
        house = build(tmp_path, people=False)
        house.edit({"automatic": "false\nstewards = 2"})
        ends = []
        for name in ("one", "two", "three"):
            keys = new_request(tmp_path / name, name)
            words = ("--role", "steward", "--project", "p", "--fingerprint", keys.fingerprint)
            words += ("--address", "localhost:1", "--output", tmp_path / f"{name}.json")
            ends.append(steward(house, "enrol", keys.file, *words).exit_code)
        assert ends == [0, 0, 0]
        enrolled = {file.stem for file in (house.folder / "identities").glob("*.toml")}
        assert enrolled == {"one", "two"}

    def test_s53_an_emergency_is_loud_in_the_log(self, house, card):
        state = house.controller.controller_state
        alone = Steward(state, channel=DecisionChannel("local", "ann", emergency=True))
        assert alone.decide(Kind.APPROVE, card, "sue is ill").done
        decided = events_on(house, card)[-2]
        assert decided.action == "decide-emergency"
        assert decided.details["emergency"] == "one steward decided alone"
        assert (decided.details["way"], decided.details["account"]) == ("local", "ann")


class TestS54:
    @pytest.fixture
    def request_of(self, house, tmp_path):
        """An enrolment request with some keys of a person's in it."""

        def made(name, whose, *files):
            folder = tmp_path / name
            folder.mkdir()
            for file in files:
                (folder / file).write_bytes((house.person(whose) / file).read_bytes())
            tls = key_in(folder / "key.pem") if "key.pem" in files else new_tls()
            signing = (
                key_in(folder / "signing_key.pem")
                if "signing_key.pem" in files
                else Ed25519PrivateKey.generate()
            )
            return request_of_document(request_document(tls, signing, name=name))

        return made

    @pytest.mark.parametrize("file", ["key.pem", "signing_key.pem"])
    def test_s54_one_key_is_one_person(self, house, request_of, file):
        request = request_of("sam2", "sam", file)
        with pytest.raises(InvalidInputError, match="belongs to sam"):
            examined(house.folder, request, "gencard.local", role="steward", project="survey")

    @pytest.mark.parametrize("file", ["key.pem", "signing_key.pem"])
    def test_s54_nor_are_keys_that_were_replaced(self, house, request_of, tmp_path, file):
        enrolled(house, "old", Role.STEWARD)
        before = request_of("older", "old", file)
        keys = new_request(tmp_path / "new", "old")
        owner(house).decide(
            Kind.ENROL,
            "people/old",
            request=keys.file.read_text(),
            fingerprint=keys.fingerprint,
            again=True,
            address="localhost:1",
        )
        with pytest.raises(InvalidInputError, match="belongs to old"):
            examined(house.folder, before, "gencard.local", role="steward", project="survey")

    def test_s54_racing_enrolments_of_one_key_enrol_one_person(self, house):
        key, signing = new_tls(), Ed25519PrivateKey.generate()
        names = [f"twin{number}" for number in range(6)]

        def enrol(name):
            text = request_document(key, signing, name=name).decode()
            try:
                owner(house).decide(
                    Kind.ENROL,
                    f"people/{name}",
                    request=text,
                    fingerprint=key_id(signing.public_key()),
                    role="steward",
                    project="survey",
                    address="localhost:1",
                )
            except (InvalidInputError, StaleEtagError):
                return 0
            return 1

        with ThreadPoolExecutor(6) as pool:
            assert sum(pool.map(enrol, names)) == 1
        assert len(list((house.folder / "identities").glob("twin*.toml"))) == 1

    def test_s54_the_key_of_the_connection_counts_too(self, house, card):
        """The people were enrolled before TLS keys were kept."""
        state, who = house.controller.controller_state, Identity.of(SAM.format("sam"))
        known = state.desk()
        desk = replace(known, person=lambda who: replace(known.person(who), tls_keys=()))
        shown = desk.card(who, card).shown
        action = Action(Kind.APPROVE, card, {}, "seen", shown)
        assert not desk.decide(who, action, request_id(), {"k"}).done
        with pytest.raises(SecondStewardError):
            desk.decide(
                replace(Identity.of(SAM.format("sue")), project="survey"), action, request_id(), {"k"}
            )


class TestS55:
    def test_s55_a_card_that_changed_between_look_and_decision_is_not_approved(self, house, people):
        with house.analyst() as ana:
            card = ana.propose("survey", [("sex", "health")], purpose="A test")
            seen = people.sam.get("GetReview", name=card.name)
            assert people.sam.decide("counter", card.name, rows=50).shown
            people.sue.decide("counter", card.name, rows=50)
            ana.card(card.name).counter(marginals=[("sex", "health"), ("work", "age")])
            assert people.sam.decide("approve", card.name, shown=seen.shown) == "STALE_ETAG"
        assert state_of(house, card.name) == "requested"

    def test_s55_a_first_decision_is_void_once_what_was_shown_has_changed(self, house, people, card):
        people.sam.decide("approve", card)
        state = house.controller.controller_state
        before = list(state.cards.catalogue)
        changed = [replace(one, policy=replace(one.policy, most_rows=77)) for one in before]
        state.cards.catalogue.set(changed)
        try:
            assert not people.sue.decide("approve", card).done
            entry = next(
                one for one in people.sid.get("ListQueue", page_size=500).waiting if one.resource == card
            )
            assert "sue" in entry.text
        finally:
            state.cards.catalogue.set(before)
        assert state_of(house, card) == "requested"

    def test_s55_of_what_was_not_shown_nothing_is_decided(self, people, card):
        for shown in ("", "0" * 64, card):
            assert people.sam.decide("approve", card, shown=shown) == "STALE_ETAG"

    @pytest.mark.parametrize("reason", ["", " ", "a\nb", "x" * 201, "\u202e"])
    def test_s55_each_decision_has_a_reason(self, people, card, reason):
        assert people.sam.decide("reject", card, reason=reason) == "INVALID_INPUT"

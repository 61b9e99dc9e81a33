"""Cards from proposal to rows, and everything that must not be signed or believed."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gencard.client import all_marginals
from gencard.core import errors
from gencard.core.card.budget import Price
from gencard.core.card.card import CardState, Turn
from gencard.wire import dsse
from gencard.wire.canonical import digest_of, document_of, json_bytes
from gencard.wire.dsse import CARD, statement


class TestMainJob:
    def test_a_proposal_that_is_too_rich_comes_back_with_a_diff_and_a_price(self, offered):
        assert offered.state is CardState.OFFERED
        assert offered.turn is Turn.ANALYST
        assert [change.reason for change in offered.changes] == ["ORDER_TOO_HIGH"]
        assert offered.terms.marginals == (("sex", "health"), ("age", "health"))
        assert offered.price == Price(12)

    def test_without_rows_it_asks_for_what_the_policy_allows(self, ana):
        card = ana.propose("survey", all_marginals(1), purpose="?")
        assert card.terms.rows == ana.dataset("survey").policy.most_rows
        with pytest.raises(errors.InvalidNumberError):
            ana.propose("survey", all_marginals(1), purpose="?", rows=0)

    def test_a_controller_that_hides_its_changes_hides_nothing(self, ana, world):
        def hide(answer):
            del answer.card.offer.changes[:]
            return answer

        world.faults.change["ProposeCard"] = hide
        card = ana.propose("survey", [("sex",), ("sex", "children", "age")], purpose="To see")
        assert not card.offer.changes
        (change,) = card.changes
        assert (change.old, change.new, change.reason) == ("sex, children, age", "", "NOT_EXPLAINED")

    @pytest.mark.parametrize("method", ["ProposeCard", "CounterCard", "GetCard", "AcceptCard"])
    def test_a_controller_that_quotes_another_proposal_is_found_out(self, ana, world, method):
        def quote(answer):
            answer.card.proposed.CopyFrom(answer.card.offer.terms)
            answer.card.proposed.rows = 5
            return answer

        world.faults.change[method] = quote

        def negotiate():
            card = ana.propose("survey", all_marginals(1), purpose="To see", rows=100)
            card.counter(rows=90) if method == "CounterCard" else card.refresh().accept()

        with pytest.raises(errors.VerificationError, match="other terms than requested"):
            negotiate()

    def test_accept_generate_replay(self, agreed):
        data = agreed.generate(rows=500, seed=7)
        assert list(data.columns) == ["sex", "age", "health"]
        assert data["health"].cat.ordered
        assert data["age"].between(0, 120).all()
        assert data.attrs["gencard"].startswith(agreed.name)
        replayed = agreed.replay(data)
        assert (replayed.rows, replayed.seed) == (500, 7)
        assert "Every byte agrees" in str(replayed)
        assert agreed.generate(rows=500, seed=7).equals(data)

    def test_a_number_moved_inside_its_interval_does_not_replay(self, agreed):
        data = agreed.generate(rows=50, seed=7)
        data.loc[3, "age"] = np.nextafter(data["age"][3], 40)
        with pytest.raises(errors.VerificationError, match="the values of 'age'"):
            agreed.replay(data)

    def test_the_intervals_that_were_released(self, agreed):
        release = agreed.release(50, seed=7)
        intervals = release.to_frame("levels")["age"]
        assert intervals.cat.categories[0] == pd.Interval(0, 18, closed="left")
        inside = zip(release.frame["age"], intervals, strict=True)
        assert all(number in interval for number, interval in inside)
        assert agreed.replay(release.to_frame("levels")).seed == 7

    def test_psi_is_fetched_once(self, agreed, world):
        assert agreed.psi.cliques == agreed.terms.marginals
        assert agreed.psi is agreed.psi
        assert world.faults.calls["StreamPsi"] == 1

    def test_data_that_were_touched_do_not_replay(self, agreed):
        data = agreed.generate(rows=50, seed=7)
        data.loc[0, "sex"] = "male" if data["sex"][0] == "female" else "female"
        with pytest.raises(errors.VerificationError, match="not a release of this card"):
            agreed.replay(data)

    def test_a_release_that_psi_does_not_give_does_not_replay(self, agreed, world):
        release = agreed.release(50, seed=1)
        other = agreed.release(50, seed=2)
        forged = signed_again(world, other.envelope, seed="1")
        message, _ = world.releases[other.name]
        message.receipt, message.seed = forged, 1
        with pytest.raises(errors.VerificationError, match="replayed rows do not match the receipt"):
            agreed.replay(other)
        assert agreed.replay(release).seed == 1

    def test_codes_can_stay_in_a_file(self, agreed, tmp_path):
        inside = agreed.release(5_000, seed=3)
        outside = agreed.release(5_000, seed=3, scratch=tmp_path)
        assert outside.dataset.digest() == inside.dataset.digest()
        assert list(tmp_path.iterdir()) == []

    def test_counter_and_terminate(self, offered):
        moved = offered.counter(marginals=all_marginals(1), rows=10)
        assert moved.terms.rows == 10
        assert moved.terms.purpose == "To see <how> it works."
        assert len(moved.terms.marginals) == 4
        assert moved.terminate().state is CardState.TERMINATED

    def test_a_dry_run_leaves_nothing(self, ana, world):
        priced = ana.propose("survey", all_marginals(2), purpose="?", dry_run=True)
        assert priced.name == ""
        assert "only been priced" in priced.next_step
        assert world.cards == {}
        assert ana.price("survey", all_marginals(2)) == priced.price

    def test_lists(self, ana, agreed):
        assert [entry.id for entry in ana.datasets()] == ["d0", "d1", "d2"]
        assert [card.name for card in ana.cards()] == [agreed.name]
        assert ana.card(agreed.name).refresh().state is CardState.AGREED
        assert ana.spends()[0].project == "pilot"
        assert ana.budget("survey").cap == Price(100)
        assert ana.generators()[0].name == "ipf"
        assert ana.identity.name == "ana"

    def test_before_agreement_there_is_nothing_to_generate(self, offered):
        with pytest.raises(errors.CardStateError):
            offered.generate(rows=10)


def signed_again(world, envelope, **changes):
    """A receipt with other facts, signed with the controller's key."""
    statement = document_of(dsse.opened(envelope)[0], "statement")
    statement["predicate"].update(changes)
    return dsse.sign(json_bytes(statement), [world.card_key])


def statement_with(path, value):
    """A change of an offered card: its statement, sound in itself, says something else."""

    def change(answer):
        facts = document_of(answer.card.offer.statement, "statement")["predicate"]
        place = facts
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        answer.card.offer.statement = statement(CARD, facts["name"], facts)
        answer.card.offer.digest = digest_of(facts)
        return answer

    return change


class TestWhatMustNotBeSigned:
    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("terms", "rows"), "7"),
            (("terms", "marginals"), [["sex", "children", "age", "health"]]),
            (("price", "statistics"), "999"),
            (("name",), "datasets/survey/cards/another"),
            (("parties", "analyst"), "spiffe://test.local/pilot/analyst/eve"),
            (("dataset", "coding", "sha256"), "00" * 32),
            (("dataset", "version", "sha256"), "00" * 32),
            (("expires",), "2036-01-01T00:00:00Z"),
        ],
    )
    def test_a_statement_that_means_something_else(self, ana, world, path, value):
        world.faults.change["ProposeCard"] = statement_with(path, value)
        card = ana.propose("survey", [("sex", "age")], purpose="?")
        with pytest.raises(errors.VerificationError, match="the statement to sign and the offer differ"):
            card.accept()
        assert world.faults.calls["AcceptCard"] == 0

    def test_a_digest_that_is_not_the_statements(self, ana, world):
        def change(answer):
            answer.card.offer.digest = "00" * 32
            return answer

        world.faults.change["ProposeCard"] = change
        with pytest.raises(errors.VerificationError, match="differ in digest"):
            ana.propose("survey", [("sex", "age")], purpose="?").accept()

    def test_a_subject_that_is_not_the_cards(self, ana, world):
        def change(answer):
            facts = document_of(answer.card.offer.statement, "statement")["predicate"]
            answer.card.offer.statement = statement(CARD, facts["name"], facts, "00" * 32)
            return answer

        world.faults.change["ProposeCard"] = change
        with pytest.raises(errors.VerificationError, match="does not match its digest"):
            ana.propose("survey", [("sex", "age")], purpose="?").accept()

    def test_bytes_in_another_form(self, ana, world):
        def change(answer):
            document = document_of(answer.card.offer.statement, "statement")
            answer.card.offer.statement = json.dumps(document, indent=1).encode()
            return answer

        world.faults.change["ProposeCard"] = change
        with pytest.raises(errors.VerificationError, match="canonical"):
            ana.propose("survey", [("sex", "age")], purpose="?").accept()

    def test_a_statement_with_more_than_it_shows(self, ana, world):
        def change(answer):
            answer.card.offer.statement = answer.card.offer.statement.replace(
                b'"nonce":', b'"more":"x","nonce":'
            )
            return answer

        world.faults.change["ProposeCard"] = change
        with pytest.raises(errors.VerificationError):
            ana.propose("survey", [("sex", "age")], purpose="?").accept()
        assert world.faults.calls["AcceptCard"] == 0


class TestWhatMustNotBeBelieved:
    def test_an_envelope_without_the_controllers_signature(self, offered, world):
        def change(answer):
            payload, signatures = dsse.opened(answer.card.envelope)
            host = dsse.key_id(world.card_key.public_key())
            answer.card.envelope = dsse.envelope_of(payload, {**signatures, host: bytes(64)})
            return answer

        world.faults.change["AcceptCard"] = change
        with pytest.raises(errors.VerificationError, match="signature"):
            offered.accept()

    def test_another_card_behind_the_same_name(self, ana, offered, world):
        other = ana.propose("survey", [("sex", "age")], purpose="?").accept()

        def change(answer):
            answer.card.envelope = other.negotiation.envelope
            return answer

        offered.accept()
        world.faults.change["GetCard"] = change
        with pytest.raises(errors.VerificationError, match="contains another card"):
            ana.card(offered.name).generate(rows=10)

    def test_a_schema_that_changed_since(self, ana, agreed, world):
        def change(answer):
            answer.dataset.attributes[0].attribute.labels.labels[:] = ["male", "female"]
            return answer

        world.faults.change["GetDataset"] = change
        with pytest.raises(errors.VerificationError, match="schema"):
            ana.card(agreed.name).generate(rows=10)

    def test_an_envelope_around_another_card(self, ana, offered, world):
        other = ana.propose("survey", [("sex", "age")], purpose="?").accept()

        def change(answer):
            answer.card.envelope = other.negotiation.envelope
            return answer

        world.faults.change["AcceptCard"] = change
        with pytest.raises(errors.VerificationError, match="contains another card"):
            offered.accept()

    def test_rows_with_another_digest(self, agreed, world):
        def change(part):
            if part.chunk.HasField("batch"):
                codes = bytearray(part.chunk.batch.codes[0])
                codes[0] ^= 1
                part.chunk.batch.codes[0] = bytes(codes)
            return part

        world.faults.change["StreamRows"] = change
        with pytest.raises(errors.VerificationError, match="digest"):
            agreed.generate(rows=100)

    def test_rows_of_another_release(self, agreed, world):
        first = agreed.release(100, seed=1)
        release = agreed.release(100, seed=2)
        world.releases[release.name] = (world.releases[release.name][0], first.dataset)
        with pytest.raises(errors.VerificationError, match="names other rows"):
            agreed.agreement.fetch(release.name, progress=False)

    def test_a_receipt_of_more_rows_than_came(self, agreed, world):
        release = agreed.release(100, seed=1)
        message, dataset = world.releases[release.name]
        message.receipt, message.rows = signed_again(world, message.receipt, rows="200"), 200
        world.releases[release.name] = (message, dataset)
        with pytest.raises(errors.VerificationError, match="names other rows"):
            agreed.agreement.fetch(release.name, progress=False)

    def test_more_rows_than_were_asked_for(self, agreed, world):
        def change(part):
            if part.chunk.HasField("header"):
                part.chunk.header.rows = 10**12
            return part

        world.faults.change["StreamRows"] = change
        with pytest.raises(errors.TooLargeError):
            agreed.generate(rows=100)

    def test_another_seed_than_was_asked_for(self, agreed, world):
        honest = world.made

        def made(request):
            request.seed += 1
            return honest(request)

        world.made = made
        with pytest.raises(errors.VerificationError, match="seed"):
            agreed.generate(rows=100, seed=4)

    def test_a_receipt_that_the_controller_did_not_sign(self, agreed, world):
        release = agreed.release(100, seed=1)
        message, _ = world.releases[release.name]
        payload, signatures = dsse.opened(message.receipt)
        message.receipt = dsse.envelope_of(payload.replace(b'"seed":"1"', b'"seed":"2"'), signatures)
        with pytest.raises(errors.VerificationError, match="signature"):
            agreed.agreement.fetch(release.name, progress=False)

    def test_psi_with_another_count(self, agreed, world):
        def change(part):
            if part.HasField("block"):
                part.block.counts[0] += 1
            return part

        world.faults.change["StreamPsi"] = change
        with pytest.raises(errors.VerificationError, match="digest"):
            _ = agreed.psi

    def test_psi_that_is_not_the_receipts(self, agreed, world, monkeypatch):
        agreed.release(100, seed=1)
        honest = world.psi

        def other(card):
            psi = honest(card)
            first, *rest = psi.measurements
            return replace(psi, measurements=(replace(first, values=first.values[..., ::-1]), *rest))

        monkeypatch.setattr(world, "psi", other)
        with pytest.raises(errors.VerificationError, match="another psi"):
            _ = agreed.psi

    def test_psi_that_states_noise_on_a_card_of_exact_counts(self, agreed, world):
        honest = world.psi

        def noisy(card):
            psi = honest(card)
            return replace(psi, measurements=tuple(replace(m, stddev=1.0) for m in psi.measurements))

        world.psi = noisy
        with pytest.raises(errors.VerificationError, match="noise"):
            _ = agreed.psi

    def test_psi_of_other_statistics(self, agreed, world):
        richer = world.psi
        world.psi = lambda card: type(richer(card))(
            richer(card).domain, richer(card).measurements[:1] * 2
        )
        with pytest.raises(errors.VerificationError, match="statistics"):
            _ = agreed.psi


def test_codes_come_as_they_were_sent(agreed, world):
    release = agreed.release(1_000, seed=5)
    np.testing.assert_array_equal(release.dataset.codes, world.releases[release.name][1].codes)

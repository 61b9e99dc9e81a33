from concurrent.futures import ThreadPoolExecutor

import pytest

from gencard.controller.state import requests, results
from gencard.controller.state.cards import (
    STANDING,
    get_card,
    granted_cards,
    list_cards,
    names_of_measured,
    update_card,
)
from gencard.controller.state.ledger import FIT
from gencard.controller.state.requests import OperationState
from gencard.controller.state.results import Conclusion, EvaluationRow, ReleaseRow
from gencard.core.audit import report
from gencard.core.audit.report import Verdict
from gencard.core.card.budget import Price
from gencard.core.card.card import CardState
from gencard.core.errors import InvalidInputError, NotFoundError, StaleEtagError, StorageError
from tests.controller.state.samples import ANA, BEN, CARD, DATASET, NOW, insert_card, ledger_of, reserve


def name_of(number):
    return f"{DATASET}/cards/c{number}"


def names(page):
    return [row.name for row in page.rows]


def move(tx, old_etag, new_etag, state=CardState.OFFERED, name=CARD):
    update_card(tx, name, old_etag=old_etag, etag=new_etag, state=state, body=b"new", now=NOW)


class TestCards:
    def test_a_card_reads_as_it_was_written(self, database):
        with database.transaction() as tx:
            insert_card(tx)
            move(tx, "etag-1", "etag-2")
        with database.reading() as tx:
            row = get_card(tx, CARD)
        assert (row.name, row.dataset, row.analyst) == (CARD, DATASET, ANA)
        assert (row.state, row.etag, row.body) == (CardState.OFFERED, "etag-2", b"new")
        assert (row.created, row.changed) == (NOW, NOW)

    def test_s24_a_stale_etag_changes_nothing(self, database):
        with database.transaction() as tx:
            insert_card(tx)
            move(tx, "etag-1", "etag-2")
            before = get_card(tx, CARD)
            with pytest.raises(StaleEtagError):
                move(tx, "etag-1", "etag-3", CardState.REVOKED)
            assert get_card(tx, CARD) == before

    def test_s24_of_many_who_move_at_once_one_does(self, database):
        with database.transaction() as tx:
            insert_card(tx)

        def approve(number):
            try:
                with database.transaction() as tx:
                    move(tx, "etag-1", f"by-{number}")
            except StaleEtagError:
                return 0
            return 1

        with ThreadPoolExecutor(8) as threads:
            assert sum(threads.map(approve, range(16))) == 1

    def test_a_name_is_given_once(self, database):
        with pytest.raises(StorageError), database.transaction() as tx:  # noqa: PT012  rises at the end
            insert_card(tx)
            insert_card(tx)
        with database.reading() as tx:
            assert names(list_cards(tx)) == []

    def test_an_unknown_card_is_not_found(self, database):
        with database.transaction() as tx:
            with pytest.raises(NotFoundError):
                get_card(tx, CARD)
            with pytest.raises(NotFoundError):
                move(tx, "etag-1", "etag-2")

    def test_granted_are_those_that_stand_or_were_measured_of_anybody(self, database):
        with database.transaction() as tx:
            for number, state in enumerate(CardState):
                insert_card(tx, name_of(number), state, ANA if number % 2 else BEN)
            insert_card(tx, "datasets/x/cards/c", CardState.AGREED, dataset="datasets/x")
            ended = [row.name for row in list_cards(tx).rows if row.state is CardState.REVOKED]
            results.put_psi(tx, ended[0], b"{}", "digest", NOW)
            granted, measured = granted_cards(tx, DATASET), names_of_measured(tx, DATASET)
        assert {row.state for row in granted} == STANDING | {CardState.REVOKED}
        assert measured == {ended[0]}

    @pytest.mark.parametrize(
        ("kind", "end"), [(FIT, None), (FIT, "settle"), (FIT, "void"), ("psi", "settle")]
    )
    def test_a_fit_that_may_have_been_paid_for_is_a_measurement(self, database, kind, end):
        ledger, price = ledger_of(9), Price(2)
        with database.transaction() as tx:
            insert_card(tx, state=CardState.REVOKED)
            line = reserve(ledger, tx, price, kind=kind)
            if end:
                getattr(ledger, end)(tx, line, NOW)
            granted, measured = granted_cards(tx, DATASET), names_of_measured(tx, DATASET)
        assert {row.name for row in granted} == measured
        assert measured == ({CARD} if kind == FIT and end != "void" else set())


class TestPages:
    def test_newest_first_and_stable_while_the_list_grows(self, database):
        with database.transaction() as tx:
            for number in range(7):
                insert_card(tx, name_of(number))
            seen, token = [], ""
            while True:
                page = list_cards(tx, limit=3, before=token)
                seen += names(page)
                insert_card(tx, name_of(100 + len(seen)))
                if not page.next_token:
                    break
                token = page.next_token
        assert seen == [name_of(number) for number in reversed(range(7))]

    @pytest.mark.parametrize(("limit", "size"), [(-5, 1), (0, 1), (2, 2), (3, 3), (10**9, 3)])
    def test_sizes_are_bounded(self, database, limit, size):
        with database.transaction() as tx:
            for number in range(3):
                insert_card(tx, name_of(number))
            page = list_cards(tx, limit=limit)
        assert len(page.rows) == size
        assert bool(page.next_token) == (size < 3)

    def test_filters_hide_what_is_not_asked_for(self, database):
        with database.transaction() as tx:
            insert_card(tx, name_of(1), analyst=ANA)
            insert_card(tx, name_of(2), analyst=BEN)
            insert_card(tx, "datasets/x/cards/c", analyst=ANA, dataset="datasets/x")
            assert names(list_cards(tx, analyst=BEN)) == [name_of(2)]
            assert names(list_cards(tx, analyst=ANA, dataset=DATASET)) == [name_of(1)]
            assert names(list_cards(tx, analyst="nobody")) == []

    @pytest.mark.parametrize("token", ["x", "-1", "1.5", " 1", "٣", "9" * 19, "1;"])
    def test_a_token_of_another_making_is_refused(self, database, token):
        with database.reading() as tx, pytest.raises(InvalidInputError) as refused:
            list_cards(tx, before=token)
        assert refused.value.fields["field"] == "page_token"


class TestPsis:
    def test_psi_is_stored_once(self, database):
        with database.transaction() as tx:
            insert_card(tx)
            assert results.find_psi(tx, CARD) is None
            assert results.put_psi(tx, CARD, b"first", "d1", NOW)
            assert not results.put_psi(tx, CARD, b"second", "d2", NOW)
            row = results.get_psi(tx, CARD)
        assert (row.document, row.digest) == (b"first", "d1")

    def test_no_psi_without_a_card(self, database):
        with pytest.raises(StorageError), database.transaction() as tx:
            results.put_psi(tx, CARD, b"first", "d1", NOW)

    def test_psi_that_was_not_measured_is_not_found(self, database):
        with database.reading() as tx, pytest.raises(NotFoundError):
            results.get_psi(tx, CARD)


def moving(state, **values):
    return lambda tx: requests.move_operation(tx, "operations/o", state, NOW, **values)


MOVES = {
    "progress": moving(OperationState.RUNNING, stage="fit", permille=500),
    "succeed": moving(OperationState.SUCCEEDED, response=b"done", permille=1000),
    "fail": moving(OperationState.FAILED, error=b"{}"),
    "cancel": moving(OperationState.CANCELLED),
}
LEGAL = {
    OperationState.QUEUED: {"progress", "fail", "cancel"},
    OperationState.RUNNING: {"progress", "succeed", "fail", "cancel"},
}
AFTER = {
    "progress": OperationState.RUNNING,
    "succeed": OperationState.SUCCEEDED,
    "fail": OperationState.FAILED,
    "cancel": OperationState.CANCELLED,
}
REACHED_BY = {
    OperationState.QUEUED: [],
    OperationState.RUNNING: ["progress"],
    OperationState.SUCCEEDED: ["progress", "succeed"],
    OperationState.FAILED: ["fail"],
    OperationState.CANCELLED: ["cancel"],
}


def create(tx, name="operations/o", owner=ANA):
    request = b'{"rows":"5"}'
    requests.create_operation(
        tx, name, owner=owner, kind="generate", resource=CARD, request=request, now=NOW
    )


class TestOperations:
    @pytest.mark.parametrize("state", OperationState)
    @pytest.mark.parametrize("attempt", MOVES)
    def test_only_legal_moves_move(self, database, state, attempt):
        with database.transaction() as tx:
            create(tx)
            for step in REACHED_BY[state]:
                assert MOVES[step](tx)
            before = requests.get_operation(tx, "operations/o")
            assert before.state is state
            moved = MOVES[attempt](tx)
            after = requests.get_operation(tx, "operations/o")
        assert moved == (attempt in LEGAL.get(state, ()))
        assert after.state is AFTER[attempt] if moved else after == before

    def test_an_operation_keeps_what_it_was_asked_and_what_it_gave(self, database):
        with database.transaction() as tx:
            create(tx)
            MOVES["progress"](tx)
            running = requests.get_operation(tx, "operations/o")
            MOVES["succeed"](tx)
            done = requests.get_operation(tx, "operations/o")
        assert (running.stage, running.permille, running.response) == ("fit", 500, None)
        assert (done.request, done.response, done.permille) == (b'{"rows":"5"}', b"done", 1000)
        assert (done.owner, done.kind, done.resource) == (ANA, "generate", CARD)

    def test_a_restart_finds_the_unfinished_oldest_first(self, database):
        with database.transaction() as tx:
            for name in ("operations/a", "operations/b", "operations/c"):
                create(tx, name)
            requests.move_operation(tx, "operations/b", OperationState.CANCELLED, NOW)
            values = {"stage": "measure", "permille": 1}
            requests.move_operation(tx, "operations/c", OperationState.RUNNING, NOW, **values)
        with database.reading() as tx:
            found = [row.name for row in requests.unfinished_operations(tx)]
            assert found == ["operations/a", "operations/c"]
            assert names(requests.list_operations(tx, owner=BEN)) == []
            assert len(requests.list_operations(tx, owner=ANA).rows) == 3

    @pytest.mark.parametrize("permille", [-1, 1001])
    def test_progress_is_from_0_to_1000(self, database, permille):
        with pytest.raises(StorageError), database.transaction() as tx:  # noqa: PT012  rises at the end
            create(tx)
            moving(OperationState.RUNNING, stage="fit", permille=permille)(tx)


class TestReleases:
    def test_a_release_reads_as_it_was_written(self, database):
        release = ReleaseRow(
            name=f"{CARD}/releases/r1",
            card=CARD,
            rows=10_000,
            size=40_000,
            seed=2**64 - 1,
            digest="d",
            psi_digest="p",
            receipt=b"{}",
            file_name="r1.codes",
            created=NOW,
        )
        with database.transaction() as tx:
            insert_card(tx)
            results.insert_result(tx, release)
            assert results.get_release(tx, release.name) == release
            assert results.list_releases(tx, card=CARD, limit=50).rows == (release,)
            assert results.list_releases(tx, card="other", limit=50).rows == ()
            assert results.released_under(tx, CARD) == (1, 10_000)
            assert results.released_to(tx, ANA) == (1, 40_000)
            assert results.released_to(tx, "another") == (0, 0)
            with pytest.raises(NotFoundError):
                results.get_release(tx, CARD)


class TestMeasures:
    def test_each_reads_as_it_was_written_and_is_there_once(self, database):
        names = ("dcr", "tables", "nndr")
        rows = [
            EvaluationRow(
                name=f"{CARD}/measures/{name}",
                card=CARD,
                measure=name,
                submitter=ANA,
                statistics=7,
                document=b"{}",
                created=NOW,
            )
            for name in names
        ]
        with database.transaction() as tx:
            insert_card(tx)
            for row in rows:
                results.insert_result(tx, row)
            assert results.get_evaluation(tx, rows[1].name) == rows[1]
            assert results.evaluated_measures(tx, CARD) == set(names)
            assert results.list_evaluations(tx, CARD, among=None).rows == tuple(reversed(rows))
            assert results.list_evaluations(tx, CARD, among=("nndr", "dcr")).rows == (rows[2], rows[0])
            assert results.list_evaluations(tx, CARD, among=()).rows == ()
            assert results.list_evaluations(tx, "other", among=None).rows == ()
            with pytest.raises(NotFoundError):
                results.get_evaluation(tx, CARD)
        with pytest.raises(StorageError), database.transaction() as tx:
            results.insert_result(tx, rows[0])


def begin(tx, number, submitter=ANA, dataset=DATASET, digest="box-1", box="smuggler", author="ann"):
    return results.begin_audit(
        tx,
        name=f"{CARD}/audits/{submitter}-{number}",
        dataset=dataset,
        submitter=submitter,
        black_box=box,
        box_digest=digest,
        author=author,
        now=NOW,
    )


def conclude(tx, number, verdict, submitter=ANA):
    results.conclude_audit(
        tx,
        f"{CARD}/audits/{submitter}-{number}",
        Conclusion("0.05", verdict, "in words", b"signed", b"{}", family_try=2),
        NOW,
    )


class TestAudits:
    def test_verdicts_are_those_of_the_audit(self):
        assert [*map(str, Verdict)] == [*map(str, report.Verdict)]

    def test_s31_attempts_count_from_the_beginning_and_by_submitter_and_dataset(self, database):
        with database.transaction() as tx:
            insert_card(tx)
            assert [begin(tx, 1), begin(tx, 2), begin(tx, 3)] == [1, 2, 3]
            assert begin(tx, 1, submitter=BEN) == 1
            assert begin(tx, 9, dataset="datasets/x") == 1
            assert results.count_attempts(tx, DATASET, ANA) == 3

    def test_s31_concurrent_attempts_get_different_numbers(self, database):
        with database.transaction() as tx:
            insert_card(tx)

        def attempt(number):
            with database.transaction() as tx:
                return begin(tx, number)

        with ThreadPoolExecutor(8) as threads:
            assert sorted(threads.map(attempt, range(20))) == list(range(1, 21))

    def test_only_audits_that_ended_are_listed_and_a_verdict_stands(self, database):
        with database.transaction() as tx:
            insert_card(tx)
            begin(tx, 1)
            begin(tx, 2)
            conclude(tx, 1, Verdict.NO_EVIDENCE)
            with pytest.raises(InvalidInputError):
                conclude(tx, 1, Verdict.LEAKAGE)
            with pytest.raises(InvalidInputError):
                conclude(tx, 3, Verdict.LEAKAGE)
            assert names(results.list_audits(tx, card=CARD, limit=50)) == [f"{CARD}/audits/{ANA}-1"]
            row = results.get_audit(tx, f"{CARD}/audits/{ANA}-1")
            assert results.get_audit(tx, f"{CARD}/audits/{ANA}-2").verdict is None
        assert (row.verdict, row.level, row.attempt) == (Verdict.NO_EVIDENCE, "0.05", 1)
        assert (row.try_number, row.author, row.cleared) == (2, "ann", None)
        assert (row.attestation, row.report, row.ended) == (b"signed", b"{}", NOW)

    @pytest.mark.parametrize(
        ("other", "related"),
        [
            ({"digest": "box-2"}, True),  # an update: one name and author
            ({"box": "renamed"}, True),  # the same bytes under another name
            ({"box": "renamed", "digest": "box-2"}, False),
            ({"author": "bob", "digest": "box-2"}, False),
            ({"author": "", "digest": "box-2"}, True),  # nobody said who wrote it
            ({"submitter": BEN, "digest": "box-2"}, True),
            ({"dataset": "datasets/x"}, False),
        ],
    )
    def test_s31_a_family_is_a_name_and_an_author_on_a_dataset_and_the_same_bytes(
        self, database, other, related
    ):
        with database.transaction() as tx:
            insert_card(tx)
            begin(tx, 1)
            begin(tx, 2, **other)
            begin(tx, 3, digest="box-3")
            submitter = other.get("submitter", ANA)
            conclude(tx, 2, Verdict.NO_EVIDENCE, submitter)
            row = results.get_audit(tx, f"{CARD}/audits/{ANA}-1")
            family = [f"{CARD}/audits/{submitter}-2"] if related else []
            assert [one.name for one in results.audits_of_family(tx, row)] == family

    def test_s31_a_cleared_audit_counts_no_more_and_one_that_runs_is_not_cleared(self, database):
        with database.transaction() as tx:
            insert_card(tx)
            for number in (1, 2, 3):
                begin(tx, number)
            conclude(tx, 1, Verdict.LEAKAGE)
            assert [one.name for one in results.counting_audits(tx)] == [f"{CARD}/audits/{ANA}-1"]
            assert results.clear_audits(tx, "datasets/x", "smuggler", NOW) == 0
            assert results.clear_audits(tx, DATASET, "smuggler", NOW) == 1
            conclude(tx, 2, Verdict.LEAKAGE)
            row = results.get_audit(tx, f"{CARD}/audits/{ANA}-3")
            assert [one.name for one in results.audits_of_family(tx, row)] == [f"{CARD}/audits/{ANA}-2"]
            assert results.get_audit(tx, f"{CARD}/audits/{ANA}-1").cleared == NOW

"""The edge of the client, over real TLS: typed errors, retries, deadlines, streams that break."""

import time
from string import Formatter

import grpc
import pytest

from gencard.client import Analyst
from gencard.client.connection.connection import _service_config, idempotent_methods
from gencard.core import errors
from gencard.v1 import (
    answers_pb2,
    audit_pb2,
    catalog_pb2,
    ledger_pb2,
    measures_pb2,
    negotiation_pb2,
    steward_pb2,
    synthesis_pb2,
)
from gencard.wire.error_table import STATUS, status_message
from tests.client.fake_controller import make_people, served

FIELDS = {name: "x" for kind in STATUS for _, name, _, _ in Formatter().parse(kind.text) if name}
"""Every blank of every text."""
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


class TestErrors:
    @pytest.mark.parametrize("kind", STATUS, ids=lambda kind: kind.reason)
    def test_every_error_of_the_catalogue_comes_back_as_itself(self, ana, world, kind):
        error = kind(**FIELDS)
        world.faults.fail["GetDataset"] = [error] * 8  # unavailable is tried again
        with pytest.raises(kind) as raised:
            ana.dataset("survey")
        assert type(raised.value) is kind
        assert str(raised.value) == str(error)
        assert raised.value.advice == kind.advice
        assert raised.value.__suppress_context__

    @pytest.mark.parametrize(
        ("code", "kind"),
        [
            (grpc.StatusCode.UNKNOWN, errors.ServiceUnavailableError),
            (grpc.StatusCode.INTERNAL, errors.InternalError),
            (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.ServiceBusyError),
            (grpc.StatusCode.DEADLINE_EXCEEDED, errors.DeadlineError),
            (grpc.StatusCode.UNIMPLEMENTED, errors.PermissionDeniedError),
        ],
    )
    def test_s15_no_word_of_a_foreign_error_is_shown(self, ana, world, code, kind):
        world.faults.fail["GetDataset"] = [code]
        with pytest.raises(kind) as raised:
            ana.dataset("survey")
        assert "token-7f3a" not in str(raised.value)

    def test_the_error_of_an_operation(self, agreed, world):
        honest = world.started

        def failing(response):
            operation = honest(response)
            operation.ClearField("response")
            operation.error.CopyFrom(status_message(errors.JobLimitError(what="memory")))
            return operation

        world.started = failing
        with pytest.raises(errors.JobLimitError, match="memory"):
            agreed.generate(rows=10)


class TestRetries:
    def test_what_is_idempotent_is_tried_again(self, ana, world):
        world.faults.fail["GetDataset"] = [UNAVAILABLE, UNAVAILABLE]
        world.faults.fail["ProposeCard"] = [UNAVAILABLE]
        ana.propose("survey", [("sex", "age")], purpose="?")
        assert world.faults.calls["GetDataset"] == 3
        assert world.faults.calls["ProposeCard"] == 2

    def test_but_not_for_ever(self, ana, world):
        world.faults.fail["GetDataset"] = [UNAVAILABLE] * 9
        with pytest.raises(errors.ServiceUnavailableError):
            ana.dataset("survey")
        assert world.faults.calls["GetDataset"] == 4

    @pytest.mark.parametrize(
        "failure",
        [errors.StaleEtagError(), errors.ServiceBusyError(what="calls"), grpc.StatusCode.INTERNAL],
    )
    def test_nothing_else_is_tried_again(self, ana, world, failure):
        world.faults.fail["GetDataset"] = [failure]
        with pytest.raises(errors.GencardError):
            ana.dataset("survey")
        assert world.faults.calls["GetDataset"] == 1

    def test_every_method_is_retried_or_named_here(self):
        assert {name for _, name in self.methods()} - self.retried() == {"RunBlackBox"}

    def test_what_changes_something_and_is_retried_carries_a_request_id(self):
        reading = ("Get", "List", "Search", "Stream")
        changing = {name: message for message, name in self.methods() if not name.startswith(reading)}
        assert {"AcceptCard", "GenerateRelease", "RunAudit", "RunMeasures"} <= set(changing)
        for name in set(changing) & self.retried():
            assert "request_id" in changing[name].fields_by_name, name

    @staticmethod
    def methods():
        """Yield the request type and the name of each method of ours."""
        modules = (
            answers_pb2,
            audit_pb2,
            catalog_pb2,
            ledger_pb2,
            measures_pb2,
            negotiation_pb2,
            steward_pb2,
            synthesis_pb2,
        )
        services = [s for module in modules for s in module.DESCRIPTOR.services_by_name.values()]
        return [(method.input_type, method.name) for s in services for method in s.methods]

    @staticmethod
    def retried():
        return {entry["method"] for entry in idempotent_methods()}

    def test_only_unavailable_is_in_the_policy(self):
        (config,) = _service_config()["methodConfig"]
        assert config["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]


class TestStreams:
    def test_a_broken_stream_is_asked_for_again(self, agreed, world):
        world.faults.fail["StreamRows"] = [UNAVAILABLE, UNAVAILABLE]
        assert len(agreed.generate(rows=200)) == 200
        assert world.faults.calls["StreamRows"] == 3

    def test_but_not_for_ever(self, agreed, world):
        world.faults.fail["StreamRows"] = [UNAVAILABLE] * 9
        with pytest.raises(errors.ServiceUnavailableError):
            agreed.generate(rows=200)
        assert world.faults.calls["StreamRows"] == 3

    def test_a_typed_error_inside_a_stream(self, agreed, world):
        world.faults.fail["StreamRows"] = [errors.CardStateError(state="revoked")]
        with pytest.raises(errors.CardStateError, match="revoked"):
            agreed.generate(rows=200)

    @pytest.mark.parametrize("part", ["header", "trailer", "batch"])
    def test_a_part_that_is_missing(self, agreed, world, part):
        def change(answer):
            if answer.chunk.HasField(part):
                answer.chunk.ClearField(part)
            return answer

        world.faults.change["StreamRows"] = change
        with pytest.raises(errors.InvalidDatasetError):
            agreed.generate(rows=200)


class TestOperations:
    def test_waiting_shows_progress_and_ends(self, agreed, world):
        told = []
        world.pending = 3
        data = agreed.generate(rows=10, progress=lambda stage, share: told.append((stage, share)))
        assert len(data) == 10
        assert ("fit", 0.5) in told
        assert told[-1] == ("rows", 1.0)

    def test_ctrl_c_cancels_on_the_controllers_side(self, agreed, world):
        def interrupt(stage, share):
            raise KeyboardInterrupt

        world.pending = 3
        with pytest.raises(KeyboardInterrupt):
            agreed.generate(rows=10, progress=interrupt)
        assert world.faults.calls["CancelOperation"] == 1

    @pytest.mark.parametrize(
        ("state", "kind"),
        [
            (synthesis_pb2.OperationProgress.STATE_FAILED, errors.InternalError),
            (synthesis_pb2.OperationProgress.STATE_CANCELLED, errors.OperationCancelledError),
        ],
    )
    def test_a_dead_job_is_not_waited_for(self, agreed, world, state, kind):
        def change(operation):
            operation.done = False
            operation.ClearField("response")
            operation.metadata.Pack(synthesis_pb2.OperationProgress(state=state))
            return operation

        world.faults.change["GenerateRelease"] = change
        with pytest.raises(kind):
            agreed.generate(rows=10)

    def test_a_service_that_is_away_for_a_moment(self, agreed, world):
        world.pending = 1
        world.faults.fail["WaitOperation"] = [UNAVAILABLE] * 5
        assert len(agreed.generate(rows=10)) == 10

    def test_an_operation_that_ends_with_something_else(self, agreed, world):
        world.faults.change["GenerateRelease"] = lambda o: (
            o.response.Pack(catalog_pb2.Dataset()), o)[1]  # fmt: skip
        with pytest.raises(errors.InternalError):
            agreed.generate(rows=10)


class TestTls:
    def test_every_call_has_a_deadline(self, agreed, world):
        agreed.generate(rows=10)
        _ = agreed.psi
        assert {"GetDataset", "ProposeCard", "AcceptCard", "StreamRows"} <= set(world.faults.deadlines)
        assert all(left is not None and left < 700 for left in world.faults.deadlines.values())

    def test_s01_another_authority_is_not_believed(self, service, people, tmp_path):
        make_people(tmp_path)
        stranger = Analyst.connect(
            f"localhost:{service[1]}",
            certificate=people / "ana/certificate.pem",
            authority=tmp_path / "ana/authority.pem",
        )
        with stranger, pytest.raises(errors.AuthorityMismatchError):
            stranger.datasets()
        eve = Analyst.connect(
            f"localhost:{service[1]}",
            certificate=tmp_path / "ana/certificate.pem",
            authority=people / "ana/authority.pem",
        )
        with eve, pytest.raises(errors.CertificateNotTrustedError):
            eve.datasets()

    def test_nobody_there(self, people):
        with served(people) as (_, port):
            pass
        with Analyst.connect(f"localhost:{port}", folder=people / "ana") as ana:
            begin = time.monotonic()
            with pytest.raises(errors.ServiceUnavailableError):
                ana.datasets()
            assert time.monotonic() - begin < 35

    def test_a_message_over_the_bound(self, ana, world):
        def change(answer):
            answer.dataset.description = "x" * (5 * 1024 * 1024)
            return answer

        world.faults.change["GetDataset"] = change
        with pytest.raises(errors.ServiceBusyError, match="message size"):
            ana.dataset("survey")


class TestCredentials:
    @pytest.mark.parametrize("address", ["localhost", "localhost:", ":7443", "localhost:x"])
    def test_an_address_that_is_none(self, people, address):
        with pytest.raises(errors.InvalidInputError, match=r"address|connection"):
            Analyst.connect(address, folder=people / "ana")

    def test_neither_folder_nor_certificate(self):
        with pytest.raises(errors.InvalidInputError):
            Analyst.connect("localhost:1")

    def test_no_address_anywhere(self, people):
        (people / "ana/connection.toml").unlink(missing_ok=True)
        with pytest.raises(errors.InvalidInputError, match="connection"):
            Analyst.connect(folder=people / "ana")
        (people / "ana/connection.toml").write_text("address = 3")
        with pytest.raises(errors.InvalidInputError, match="has no address"):
            Analyst.connect(folder=people / "ana")

    @pytest.mark.parametrize("name", ["key.pem", "signing_key.pem"])
    def test_s17_a_key_that_others_can_read(self, service, people, name):
        file = people / "ana" / name
        file.chmod(0o644)
        try:
            with pytest.raises(errors.InvalidInputError, match="other users can read"):
                accept_something(f"localhost:{service[1]}", folder=people / "ana")
        finally:
            file.chmod(0o600)

    @pytest.mark.parametrize(
        ("argument", "content"),
        [("signing_key", b"garbage"), ("controller_key", b"garbage"), ("log_key", b"garbage")],
    )
    def test_files_that_are_no_keys(self, service, people, tmp_path, argument, content):
        file = tmp_path / "file.pem"
        file.write_bytes(content)
        file.chmod(0o600)
        with pytest.raises(errors.InvalidInputError, match="Ed25519"):
            accept_something(f"localhost:{service[1]}", folder=people / "ana", **{argument: file})

    def test_a_certificate_that_names_nobody(self, service, people, tmp_path):
        for file in (people / "ana").iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
            (tmp_path / file.name).chmod(0o600)
        (tmp_path / "certificate.pem").write_bytes((people / "ana/authority.pem").read_bytes())
        nobody = Analyst.connect(f"localhost:{service[1]}", folder=tmp_path)
        with nobody, pytest.raises(errors.UnauthenticatedError):
            _ = nobody.identity


def accept_something(address, **files):
    with Analyst.connect(address, **files) as ana:
        ana.propose("survey", [("sex",)], purpose="?").accept()
        ana.checkpoint()


class TestLog:
    def test_the_log_grows_and_is_followed(self, ana, agreed, world):
        world.log("first")
        assert ana.checkpoint().size == 1
        assert ana.checkpoint().size == 1
        release = agreed.release(10)
        checkpoint = ana.checkpoint()
        assert checkpoint.size == 2
        leaf = ana.log.check_entry(release.receipt.log_index, checkpoint)
        assert leaf == world.leaves[1].hex()

    @pytest.mark.parametrize(
        "rewrite", [lambda leaves: leaves[:2], lambda leaves: [leaves[0][::-1], *leaves[1:]],
                    lambda leaves: [leaves[0][::-1], *leaves[1:], b"x" * 32]],
        ids=["shortened", "forked", "forked and longer"],
    )  # fmt: skip
    def test_s38_a_log_that_was_rewritten_is_noticed(self, ana, world, rewrite):
        for entry in "abc":
            world.log(entry)
        ana.checkpoint()
        world.leaves = rewrite(world.leaves)
        with pytest.raises(errors.VerificationError, match="log"):
            ana.checkpoint()

    def test_s38_an_entry_that_is_not_there(self, ana, world):
        for entry in "abc":
            world.log(entry)
        checkpoint = ana.checkpoint()
        world.leaves[1] = b"x" * 32
        with pytest.raises(errors.VerificationError, match="entry 1"):
            ana.log.check_entry(1, checkpoint)

    def test_a_checkpoint_with_another_key(self, ana, world, monkeypatch):
        world.log("a")
        honest = world.key
        monkeypatch.setattr(world, "key", lambda name: honest("card_key.pem"))
        with pytest.raises(errors.VerificationError, match="signature"):
            ana.checkpoint()

"""Stewards of tests, at the desk of a controller in this process."""

import json
from uuid import uuid4

from google.protobuf import descriptor_pool, message_factory

from gencard.controller.state import results
from gencard.controller.stewards.desk import DecisionChannel
from gencard.wire.canonical import json_bytes
from gencard.wire.documents import terms_document
from gencard.wire.keys import Identity
from gencard.wire.steward import Action, Kind
from tests.system.raw_calls import call


class Steward:
    """Decides on what stands there now; what ``decide`` returns, and what it changed."""

    def __init__(self, controller_state, uri="spiffe://gencard.local/service/steward/sam", channel=None):
        self.state = controller_state
        self.who = Identity.of(uri)
        self.desk = controller_state.desk(channel or DecisionChannel("local", self.who.name))

    def decide(self, kind, resource, reason="seen", **arguments):
        shown = self.desk.preview(self.who, kind, resource, arguments).shown
        action = Action(kind, resource, arguments, reason, shown)
        return self.desk.decide(self.who, action, str(uuid4()))

    def approve(self, name):
        self.decide(Kind.APPROVE, name)
        return self._card(name)

    def offer(self, name, terms):
        self.decide(Kind.COUNTER, name, terms=terms_document(terms))
        return self._card(name)

    def reject(self, name, remark):
        self.decide(Kind.REJECT, name, remark=remark)
        return self._card(name)

    def revoke(self, name, remark):
        self.decide(Kind.REVOKE, name, remark=remark)
        return self._card(name)

    def settle(self, line, *, void):
        self.decide(Kind.VOID if void else Kind.SETTLE, f"ledger/{line}")

    def clear(self, dataset, black_box, remark):
        cleared = self.decide(Kind.CLEAR_AUDITS, dataset, remark, black_box=black_box)
        return int(cleared.result["tries"])

    def waiting(self):
        return self.desk.answers(self.who)

    def release(self, name, **arguments):
        self.decide(Kind.RELEASE_ANSWER, name, **arguments)
        return self._run(name)

    def refuse(self, name, *codes):
        self.decide(Kind.REFUSE_ANSWER, name, **({"code": codes[0]} if codes else {}))
        return self._run(name)

    def rotate(self, use):
        return self.decide(Kind.ROTATE, f"keys/{use}").result

    def _card(self, name):
        with self.state.database.reading() as tx:
            return self.state.cards.card(tx, name)

    def _run(self, name):
        with self.state.database.reading() as tx:
            return results.get_run(tx, name)


WHOLE = ("review", "preview", "decision")
"""Fields of responses that hold all of the response."""


def digest_of_decision(decision):
    """The digest that both stewards have to agree on."""
    arguments = json.loads(decision.arguments) if decision.arguments else {}
    kind, resource = Kind(decision.kind), decision.resource
    return Action(kind, resource, arguments, "any", decision.shown).digest


class Caller:
    """A steward on another machine: every call over TLS, each ending as it comes."""

    SERVICE = "/gencard.v1.StewardService/"

    def __init__(self, house, name):
        self.channel = house.channel(name)

    def get(self, method, **fields):
        """The response, or the reason of the error."""
        pool = descriptor_pool.Default().FindServiceByName("gencard.v1.StewardService")
        described = pool.FindMethodByName(method)
        request, response = (
            message_factory.GetMessageClass(kind)
            for kind in (described.input_type, described.output_type)
        )
        ending = call(self.channel, self.SERVICE + method, request(**fields))
        if not ending.answers:
            return ending.reason
        answer = response.FromString(ending.answers[0])
        whole = next((one for one in WHOLE if one in answer.DESCRIPTOR.fields_by_name), None)
        return answer if whole is None else getattr(answer, whole)

    def decide(self, kind, resource, *, shown=None, uuid=None, reason="seen", **arguments):
        document = json_bytes(arguments)
        if shown is None:
            seen = self.get("GetPreview", kind=kind, resource=resource, arguments=document)
            if isinstance(seen, str):
                return seen
            shown = seen.shown
        action = {"kind": kind, "resource": resource, "arguments": document}
        action |= {"reason": reason, "shown": shown}
        return self.get("Decide", action=action, request_id=uuid or str(uuid4()))

"""Whatever disk, server, signer and clock do: one call at a time, no busy loop, no flood of requests, and in the end a certificate."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors.certificates.report import sentence
from actors.certificates.state import EARLIEST, CertificatePhase
from api.errors import Failure, FailureKind
from api.ports.certificate import EXPIRED
from api.ports.kube import KubeObject
from tests.unit.actors.certificates.hand import Hand, lived

FAILURES = st.builds(
    Failure,
    kind=st.sampled_from(FailureKind),
    message=st.just("no"),
    reason=st.sampled_from(["", EXPIRED, "Forbidden"]),
)
GARBAGE = st.sampled_from([b"", b"{}", b'{"kind": "CertificateSigningRequest", "metadata": {"name": "x"}}'])


class CertificateLife(RuleBasedStateMachine):
    """A node whose certificates live for an hour."""

    @initialize(
        held=st.sampled_from(["token", "young", "old", "expired", "none"]),
        bootstrap=st.booleans(),
        rotates=st.booleans(),
    )
    def begin(self, held, bootstrap, rotates):
        lives = {
            "young": lived(0.1, 3600),
            "old": lived(0.95, 3600),
            "expired": lived(1.2, 3600),
            "none": None,
        }
        self.hand = Hand(lives.get(held, held), bootstrap=bootstrap, rotates=rotates, life_s=3600)
        self.begun = self.hand.now

    @rule()
    def answered(self):
        if self.hand.open:
            self.hand.answer()

    @rule(failure=FAILURES)
    def failed(self, failure):
        if self.hand.open:
            self.hand.answer(failure)

    @rule(body=GARBAGE)
    def answered_with_garbage(self, body):
        if self.hand.open:
            self.hand.answer(KubeObject(body=body))

    @rule(seconds=st.floats(0.1, 4000))
    def time_passes(self, seconds):
        self.hand.pass_time(seconds)
        if self.hand.wake_at is not None and self.hand.wake_at <= self.hand.now:
            self.hand.wake()

    @rule(seconds=st.integers(-4000, 4000))
    def clock_jumps(self, seconds):
        self.hand.wall += seconds * 10**9

    @rule(condition=st.sampled_from(["Approved", "Denied", "Failed"]), signed=st.booleans())
    def somebody_decides(self, condition, signed):
        for name in self.hand.requests:
            self.hand.decide_on(name, condition, signed=signed)

    @rule()
    def somebody_deletes(self):
        self.hand.requests.clear()

    @invariant()
    def rows_can_be_shown(self):
        text = sentence(self.hand.state, self.hand.now, self.hand.wall)
        assert "None" not in text
        assert self.hand.state.phase(self.hand.now) in CertificatePhase

    @invariant()
    def nobody_is_flooded(self):
        # However it is answered, a request follows the one before it after a while: two in the first second at most.
        made = sum(call == "CreateObject" for _, call in self.hand.asked)
        assert made <= 2 + (self.hand.now - self.begun) / 1.0

    @invariant()
    def what_is_young_is_not_rotated(self):
        state = self.hand.state
        if state.rotate_at is not None:
            one = state.certificate
            assert state.rotate_at >= one.valid_from + EARLIEST * (one.valid_until - one.valid_from) - 1

    def teardown(self):
        """In a world that works again, a node that may ask gets its certificate."""
        if not hasattr(self, "hand") or self.hand.held == "token":
            return
        hand, settings_ = self.hand, self.hand.state.settings
        hand.requests.clear()
        for _ in range(200):
            hand.run(30.0)
            for name in hand.requests:
                hand.decide_on(name, "Approved")
        one = hand.state.certificate
        if settings_.bootstrap_kubeconfig:
            assert one is not None
            assert one.valid_until > hand.wall - 120 * 10**9


CertificateLife.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestCertificateLife = pytest.mark.filterwarnings("ignore")(CertificateLife.TestCase)

"""The client certificate: read, renewed in time and once, asked for by a bootstrap, and what each refusal becomes."""

import json

import pytest

from actors.certificates.core import BOOTSTRAP, KUBE
from actors.certificates.report import sentence, without_identity
from actors.certificates.state import CertificatePhase
from api.errors import FailureKind
from api.ports.kube import KubeObject
from tests.unit.actors.certificates.hand import (
    DAY,
    DOWN,
    ISSUED,
    MAKE,
    NS,
    READ,
    STORE,
    Hand,
    certificate,
    failed,
    lived,
)


def row(hand):
    return sentence(hand.state, hand.now, hand.wall)


def phase(hand):
    return hand.state.phase(hand.now)


def waiting(hand):
    """Return a hand whose request is on the server and waits."""
    hand.settle()
    assert phase(hand) is CertificatePhase.WAITING
    hand.calls()
    hand.said()
    return hand


# ---------------------------------------------------------------- reading


def test_a_valid_certificate_is_read_again_each_minute_and_nothing_is_asked_for():
    hand = Hand(lived(0.1))
    assert phase(hand) is CertificatePhase.READING
    hand.settle()
    assert phase(hand) is CertificatePhase.VALID
    hand.run(301.0)
    assert hand.calls() == [READ] * 6
    assert "is valid until 2023-11-23T" in row(hand)
    assert "rotated from 2023-" in row(hand)


def test_a_certificate_that_somebody_else_replaced_is_the_one_that_counts():
    hand = Hand(lived(0.6))
    hand.settle()
    hand.held = lived(0.0)
    hand.run(61.0)
    assert hand.state.certificate == hand.held
    assert hand.said() == ["client certificate read"] * 2


def test_an_identity_without_a_certificate_is_left_alone():
    hand = Hand("token")
    hand.run(10 * DAY)
    assert set(hand.calls()) == {READ}
    assert "there is nothing to rotate" in row(hand)


def test_a_kubeconfig_that_is_absent_is_looked_for_again_ever_later():
    hand = Hand(None)
    hand.run(300.0)
    assert len(hand.calls()) == 5 + 7
    assert phase(hand) is CertificatePhase.BACKING_OFF
    assert "there is no such file; next attempt in" in row(hand)
    assert hand.said() == ["client certificate request failed"], "told once"
    hand.held = lived(0.1)
    hand.run(60.0)
    assert phase(hand) is CertificatePhase.VALID


# ---------------------------------------------------------------- rotation


def test_a_rotation_begins_between_70_and_90_percent_of_a_life_and_at_another_instant_for_each_certificate():
    shares = set()
    for hours in range(1, 30):
        hand = Hand(certificate(0, hours * 3600))
        hand.settle()
        one = hand.state.certificate
        shares.add((hand.state.rotate_at - one.valid_from) / (one.valid_until - one.valid_from))
    assert len(shares) == 29
    assert 0.7 <= min(shares) < 0.75
    assert 0.85 < max(shares) <= 0.9


def test_a_rotation_makes_a_key_asks_waits_and_stores():
    hand = Hand(lived(0.9))
    hand.settle()
    assert hand.calls() == [READ, MAKE, (KUBE, "CreateObject")]
    name = hand.only
    expected = (
        f"waits for the approval of CertificateSigningRequest {name}: kubectl certificate approve {name}"
    )
    assert expected in row(hand)
    hand.decide_on(name, "Approved", signed=False)
    hand.run(2.0)
    assert f"waits for the certificate of CertificateSigningRequest {name}, which is approved" in row(hand)
    hand.decide_on(name, "Approved")
    hand.run(5.0)
    assert hand.calls() == [(KUBE, "GetObject"), (KUBE, "GetObject"), STORE]
    assert phase(hand) is CertificatePhase.VALID
    assert hand.state.certificate == hand.held
    assert hand.state.rotate_at - hand.wall > 6.9 * DAY * NS
    assert hand.said() == [
        "client certificate read",
        "client certificate is being rotated",
        "certificate signing request waits",
        "certificate signing request waits",
        "client certificate stored",
    ]


def test_a_life_of_rotations_has_one_request_for_each():
    hand = Hand(lived(0.0, 3600), life_s=3600)
    for _ in range(40):
        hand.run(600.0)
        for name in hand.requests:
            hand.decide_on(name, "Approved")
    assert 6 <= hand.state.rotations <= 10
    assert len(hand.requests) == hand.state.rotations
    assert hand.state.certificate.valid_until > hand.wall


def test_nothing_is_rotated_that_is_not_to_be():
    hand = Hand(lived(0.95), rotates=False)
    hand.run(0.3 * DAY)
    assert set(hand.calls()) == {READ}
    assert "is not rotated (rotateCertificates is false)" in row(hand)


def test_a_certificate_that_has_expired_without_a_bootstrap_is_named_and_costs_little():
    hand = Hand(lived(0.5, 1000), rotates=False)
    hand.run(600.0)
    hand.calls()
    hand.run(3600.0)
    assert len(hand.calls()) < 3600 / 30
    assert "it was valid until yesterday; next attempt in" in row(hand)


def test_a_server_that_is_away_is_asked_again_with_the_same_request():
    hand = Hand(lived(0.9))
    hand.down = {KUBE: DOWN}
    hand.run(200.0)
    calls = hand.calls()
    assert calls[:2] == [READ, MAKE]
    assert set(calls[2:]) == {(KUBE, "CreateObject")}
    assert 8 <= len(calls) <= 12
    assert "connection refused; next attempt in" in row(hand)
    assert "is valid until" in row(hand)
    hand.down = {}
    hand.run(40.0)
    assert phase(hand) is CertificatePhase.WAITING


def test_a_clock_that_jumps_past_the_end_is_noticed_within_a_minute():
    hand = Hand(lived(0.1))
    hand.settle()
    hand.wall += 10 * DAY * NS
    hand.run(60.0)
    assert hand.state.request is not None


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("condition", "words"),
    [("Denied", "was denied (Why: never)"), ("Failed", "could not be signed (Why: never)")],
)
def test_a_request_that_is_refused_is_made_again_ever_later(condition, words):
    hand = waiting(Hand(lived(0.9, 1000 * DAY)))
    begun = hand.now
    while len(hand.requests) < 8:
        for name in hand.requests:
            hand.decide_on(name, condition, message="never")
        hand.run(5.0)
        assert words in row(hand) or phase(hand) is not CertificatePhase.BACKING_OFF
    assert hand.now - begun > 10 + 20 + 40 + 80 + 160 + 300
    assert hand.state.errors >= 7


def test_what_the_server_says_cannot_break_a_line():
    hand = waiting(Hand(lived(0.9)))
    hand.decide_on(hand.only, "Denied", message="a\nb\x1b[31m" + "x" * 9000)
    hand.run(2.0)
    assert "\n" not in row(hand)
    assert "\x1b" not in row(hand)
    assert len(row(hand)) < 900


def test_a_request_that_nobody_signs_is_given_up_after_a_quarter_of_an_hour():
    hand = waiting(Hand(lived(0.9)))
    first = hand.only
    hand.run(880.0)
    assert list(hand.requests) == [first]
    hand.run(40.0)
    assert len(hand.requests) == 2
    why = next(facts["why"] for text, facts in hand.lines if text == "client certificate request failed")
    assert why == (
        f"CertificateSigningRequest {first} was not approved within 15 min: kubectl certificate approve {first}"
    )


def test_a_request_that_was_deleted_is_made_again():
    hand = waiting(Hand(lived(0.9)))
    hand.requests.clear()
    hand.run(5.0)
    assert len(hand.requests) == 1
    assert phase(hand) is CertificatePhase.WAITING


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'{"kind": "Status"}',
        b'{"kind": "CertificateSigningRequest", "metadata": {"name": "another"}}',
        b'{"kind": "CertificateSigningRequest", "metadata": {"name": "%s"}, "status": {"certificate": "!"}}',
        b'{"kind": "CertificateSigningRequest", "metadata": {"name": "%s"}, "status": {"conditions": [{}, {"type": 1}]}}',
        b"[" * 100_000,
    ],
)
def test_an_answer_that_is_no_request_is_one_failure_and_the_wait_goes_on(body):
    hand = waiting(Hand(lived(0.9)))
    hand.wake()
    hand.answer(KubeObject(body=body.replace(b"%s", hand.only.encode())))
    assert phase(hand) is CertificatePhase.BACKING_OFF
    assert hand.said() == ["client certificate request failed"]
    hand.decide_on(hand.only, "Approved")
    hand.run(10.0)
    assert hand.state.rotations == 1


def test_a_request_of_another_signer_is_not_waited_for():
    hand = waiting(Hand(None, bootstrap=True))
    hand.requests[hand.only]["spec"]["signerName"] = "example.com/mine"
    hand.decide_on(hand.only, "Approved")
    hand.run(2.0)
    assert "is for another signer than kubernetes.io/kube-apiserver-client-kubelet; delete it" in row(hand)
    assert STORE not in hand.calls()


@pytest.mark.parametrize(
    ("failure", "next_calls"),
    [
        (failed(FailureKind.EXHAUSTED, "disk full"), [STORE]),
        (failed(FailureKind.UNAVAILABLE, "disk broken"), [STORE]),
        (failed(FailureKind.REJECTED, "not for this key"), [MAKE, (KUBE, "CreateObject")]),
        (failed(FailureKind.NOT_FOUND, "the key is lost"), [MAKE, (KUBE, "CreateObject")]),
    ],
)
def test_a_certificate_that_cannot_be_stored_is_kept_unless_it_is_useless(failure, next_calls):
    hand = waiting(Hand(lived(0.9)))
    hand.decide_on(hand.only, "Approved")
    hand.wake()
    hand.answer()
    hand.answer(failure)
    assert failure.message in row(hand)
    hand.calls()
    hand.wake()
    hand.settle()
    assert hand.calls() == next_calls


# ---------------------------------------------------------------- bootstrap


@pytest.mark.parametrize("held", [None, certificate(1000, -1)])
def test_a_bootstrap_asks_with_its_own_identity_and_its_row_names_the_command(held):
    hand = Hand(held, bootstrap=True, rotates=False)
    hand.settle()
    assert hand.calls() == [READ, MAKE, (BOOTSTRAP, "CreateObject")]
    expected = "waits for the approval of CertificateSigningRequest node-csr-n1: kubectl certificate approve node-csr-n1"
    assert without_identity(hand.state, hand.now).startswith(expected)
    hand.decide_on("node-csr-n1", "Approved")
    hand.run(2.0)
    assert hand.calls() == [(BOOTSTRAP, "GetObject"), STORE]
    assert without_identity(hand.state, hand.now) == ""
    hand.run(200.0)
    assert set(hand.calls()) == {READ}


def test_a_kubeconfig_that_parses_not_is_no_reason_for_a_bootstrap():
    hand = Hand(None, bootstrap=True)
    hand.answer(failed(FailureKind.REJECTED, "it is not YAML in line 3; correct it"))
    assert hand.state.request is None
    assert "not YAML" in row(hand)


def test_a_restarted_agent_waits_for_the_request_of_its_last_life():
    hand = Hand(None, bootstrap=True)
    hand.requests["node-csr-n1"] = {
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "node-csr-n1"},
        "spec": {"signerName": "kubernetes.io/kube-apiserver-client-kubelet"},
    }
    hand.settle()
    assert hand.calls() == [READ, MAKE, (BOOTSTRAP, "CreateObject"), (BOOTSTRAP, "GetObject")]
    hand.decide_on("node-csr-n1", "Approved")
    hand.run(5.0)
    assert hand.state.rotations == 1


def test_a_bootstrap_waits_for_an_hour_and_goes_on_with_the_same_request():
    hand = waiting(Hand(None, bootstrap=True))
    hand.run(3580.0)
    assert [text for text in hand.said() if "failed" in text] == []
    hand.run(60.0)
    assert hand.said()[0] == "client certificate request failed"
    assert phase(hand) is CertificatePhase.WAITING
    assert list(hand.requests) == ["node-csr-n1"]


def test_a_denied_bootstrap_says_how_to_have_another_one_made_and_floods_nobody():
    hand = waiting(Hand(None, bootstrap=True))
    hand.decide_on("node-csr-n1", "Denied", message="who?")
    hand.run(2.0)
    assert "delete it: kubectl delete certificatesigningrequest node-csr-n1; next attempt" in row(hand)
    hand.run(3600.0)
    assert list(hand.requests) == ["node-csr-n1"]
    del hand.requests["node-csr-n1"]
    hand.run(400.0)
    assert phase(hand) is CertificatePhase.WAITING


@pytest.mark.parametrize(
    ("reason", "hint"),
    [("Unauthorized", "have a new bootstrap token made"), ("Forbidden", "system:node-bootstrapper")],
)
def test_a_bootstrap_identity_that_is_refused_is_one_clear_line(reason, hint):
    hand = Hand(None, bootstrap=True)
    hand.down = {BOOTSTRAP: failed(FailureKind.DENIED, f"POST certificatesigningrequests: {reason}", reason)}
    hand.run(300.0)
    assert hint in row(hand)
    assert hand.said() == ["first client certificate is requested", "client certificate request failed"]
    assert "what_to_do" not in json.dumps([facts for _, facts in hand.lines])


def test_a_kubeconfig_that_somebody_gives_the_node_ends_the_wait():
    hand = waiting(Hand(None, bootstrap=True))
    hand.held = lived(0.1)
    hand.run(70.0)
    assert phase(hand) is CertificatePhase.VALID
    assert without_identity(hand.state, hand.now) == ""


def test_a_bootstrap_that_waits_looks_for_a_kubeconfig_each_minute_and_keeps_its_request():
    hand = waiting(Hand(None, bootstrap=True))
    hand.run(600.0)
    calls = hand.calls()
    assert 8 <= calls.count(READ) <= 10
    assert MAKE not in calls


def test_a_certificate_that_expires_while_the_agent_runs_begins_a_bootstrap():
    hand = Hand(lived(0.5, 1000), bootstrap=True, rotates=False)
    hand.run(490.0)
    assert set(hand.calls()) == {READ}
    hand.run(20.0)
    assert (BOOTSTRAP, "CreateObject") in hand.calls()


def test_what_is_issued_shows_nothing_secret():
    hand = waiting(Hand(lived(0.9)))
    hand.decide_on(hand.only, "Approved")
    hand.wake()
    hand.answer()
    assert hand.state.request.issued == ISSUED
    assert "KEY" not in repr(hand.state)

"""What the runtime is asked for: hashes, expansion, environment, labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.pod.spec.containerconfig import container_spec, sandbox_spec
from actors.pod.spec.environment import environment, expand
from actors.pod.spec.identity import container_hash, recorded_grace_s
from api.kube.objects.container import Lifecycle
from api.kube.objects.pod import Container, EnvVar, PodSecurityContext, SecurityContext
from api.ports.node import NodeFacts
from api.ports.runtime import ANNOTATION_OWNER, LABEL_POD_NAME
from tests.unit.actors.pods import instance, shown, wanted


@pytest.mark.parametrize(
    ("name", "image", "digest"),
    [
        ("test_container", "foo/image:v1", "8e45cbd0"),
        ("c", "registry.k8s.io/pause:3.10", "c66cfb5f"),
        ("web", "nginx:1.27", "e220f96"),
    ],
)
def test_the_hash_of_a_container_is_kubernetes_own(name, image, digest):
    assert container_hash(name, image) == digest


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$(X)", "$(X)"),
        ("$(A", "$(A"),
        ("$A", "$A"),
        ("$$$(A)", "$1"),
        ("a$(A)b$(A)", "a1b1"),
        ("$", "$"),
        ("$()", "$()"),
    ],
)
def test_references_are_expanded_by_kubernetes_rule(text, result):
    assert expand(text, {"A": "1"}) == result


@given(st.text(alphabet="a$()A"))
def test_an_expansion_is_never_expanded_again(value):
    assert expand("$(A)", {"A": value}) == value


def test_the_environment_is_in_order_of_definition_and_the_last_of_a_name_wins():
    given_env = [("A", "1"), ("B", "$(A)$(C)"), ("C", "3"), ("A", "$(A)2")]
    container = Container(name="a", env=tuple(EnvVar(name=n, value=v) for n, v in given_env))
    assert [(v.name, v.value) for v in environment(container, wanted(container), NodeFacts(), ())] == [
        ("A", "12"),
        ("B", "1$(C)"),
        ("C", "3"),
    ]


def test_command_and_args_see_the_whole_environment():
    container = Container(
        name="a",
        command=("$(A)",),
        args=("-$(B)", "$(X)"),
        env=(EnvVar(name="A", value="x"), EnvVar(name="B")),
    )
    spec = container_spec(wanted(container), container, 3, NodeFacts())
    assert (spec.command, spec.args) == (("x",), ("-", "$(X)"))
    assert (spec.attempt, spec.log_path) == (3, "a/3.log")
    assert dict(spec.annotations)["io.kubernetes.container.restartCount"] == "3"


def test_a_containers_own_user_wins_over_the_pods():
    own = Container(name="a", security_context=SecurityContext(run_as_user=0))
    pod = wanted(own, "b", security_context=PodSecurityContext(run_as_user=7, run_as_group=8))
    first, second = (container_spec(pod, c, 0, NodeFacts()) for c in pod.spec.containers)
    assert [(s.user, s.group) for s in (first, second)] == [(0, 8), (7, 8)]


def test_a_sandbox_carries_the_pods_labels_under_ours_and_says_whose_it_is():
    pod = wanted()
    spec = sandbox_spec(pod, 2, NodeFacts(log_root="/logs"))
    assert dict(spec.labels)[LABEL_POD_NAME] == "web"
    assert dict(spec.annotations)[ANNOTATION_OWNER] == "nodeagent"
    assert (spec.log_directory, spec.attempt, spec.hostname) == ("/logs/default_web_u1", 2, "web")


def test_a_long_name_makes_a_host_name_that_dns_accepts():
    assert sandbox_spec(wanted(name="x" * 62 + "-yz"), 0, NodeFacts()).hostname == "x" * 62


@pytest.mark.parametrize(
    ("view", "grace"),
    [
        (None, 30),
        (shown(), 30),
        (shown(instance(grace=7), instance("b", grace=9)), 9),
        (shown(instance(annotations=(("io.kubernetes.pod.terminationGracePeriod", "x"),))), 30),
    ],
)
def test_the_grace_of_a_pod_that_nobody_knows_is_what_its_containers_were_made_with(view, grace):
    assert recorded_grace_s(view) == grace


def test_a_stop_signal_is_passed_on_or_refused_never_dropped():
    pod = wanted(Container(name="c", image="i", lifecycle=Lifecycle(stop_signal="SIGUSR1")))
    (container,) = pod.spec.containers
    able = NodeFacts(confined=True, stop_signals=True)
    assert container_spec(pod, container, 0, able).stop_signal == "SIGUSR1"
    refused = container_spec(pod, container, 0, NodeFacts(confined=True))
    assert refused.reason == "CreateContainerConfigError"
    assert "SIGUSR1" in refused.message

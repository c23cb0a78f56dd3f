"""What the embedded runtime accepts as a container, and its one image."""

import os

import pytest

from api.errors import FailureKind, RejectedError
from api.ports.images import (
    ImageFsUsage,
    ImagePulled,
    ImageRemoved,
    ImageStatus,
    ListImages,
    PullImage,
    RemoveImage,
)
from api.ports.runtime import ContainerSpec, EnvironmentVariable
from runtime.drivers.embedded.image import EmbeddedImages, host_row, require_own_user, require_runnable


def spec(image="nodeagent.local/host", **fields):
    values = {"name": "web", "attempt": 0, "command": ("true",), "log_path": "web/0.log"} | fields
    return ContainerSpec(image=image, **values)


@pytest.mark.parametrize(
    "image", ["nodeagent.local/host", "nodeagent.local/host:latest", "nodeagent.local/host:v1"]
)
def test_the_host_image_is_accepted_with_and_without_tag(image):
    require_runnable(spec(image))


@pytest.mark.parametrize(
    "image",
    [
        "nginx",
        "registry.k8s.io:5000/pause:3.9",
        "nodeagent.local/host/other",
        f"nodeagent.local/host@sha256:{'0' * 64}",
    ],
)
def test_any_other_image_is_refused_with_what_would_run_it(image):
    with pytest.raises(RejectedError) as refused:
        require_runnable(spec(image))
    assert refused.value.reason == "ErrImagePull"
    assert image in str(refused.value)
    assert "--container-runtime-endpoint unix:///" in str(refused.value)


@pytest.mark.parametrize("image", ["", "UPPER/case", "a b", "nginx:", "/nginx", "nginx:tag:tag"])
def test_what_is_no_image_reference_is_called_that(image):
    with pytest.raises(RejectedError) as refused:
        require_runnable(spec(image))
    assert refused.value.reason == "InvalidImageName"


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"command": ()}, "command"),
        ({"tty": True}, "tty"),
        ({"stdin": True}, "stdin"),
        ({"command": ("a\0b",)}, "NUL"),
        ({"log_path": "../../etc/passwd"}, "log path"),
        ({"log_path": "/etc/passwd"}, "log path"),
        ({"env": (EnvironmentVariable("A=B", "x"),)}, "A=B"),
    ],
)
def test_what_no_process_can_be_given_is_refused(fields, word):
    with pytest.raises(RejectedError, match=word):
        require_runnable(spec(**fields))


def test_a_refusal_never_repeats_an_environment_value():
    with pytest.raises(RejectedError) as refused:
        require_runnable(spec(env=(EnvironmentVariable("TOKEN", "sword\0fish"),)))
    assert "TOKEN" in str(refused.value)
    assert "sword" not in str(refused.value)


def test_the_host_image_names_the_user_that_its_containers_run_as():
    assert host_row(1001).user == 1001


def test_an_agent_without_root_refuses_another_user_or_group_and_names_the_field(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1001)
    monkeypatch.setattr(os, "getegid", lambda: 100)
    for own in ({}, {"user": 1001}, {"user": 1001, "group": 100}):
        require_own_user(spec(**own))
    for field, other in (("runAsUser 0", {"user": 0}), ("runAsGroup 1001", {"user": 1001, "group": 1001})):
        with pytest.raises(RejectedError, match=f"{field} needs root, and the agent runs as user 1001"):
            require_own_user(spec(**other))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    require_own_user(spec(user=1001, group=100))


def asked(call):
    """Return the answer to a call on images, which comes at once, and only once."""
    answers = []
    undo = EmbeddedImages().begin(call, 1.0, lambda result, failure: answers.append(result or failure))
    undo()
    (answer,) = answers
    return answer


def test_the_one_image_is_listed_found_and_needs_no_fetching():
    row = host_row(os.geteuid())
    assert asked(ListImages()).images == (row,)
    assert asked(ImageStatus(image="nodeagent.local/host:v1")).image == row
    assert asked(ImageStatus(image="nginx")).image is None
    assert asked(PullImage(image="nodeagent.local/host")) == ImagePulled(ref="nodeagent.local/host")
    assert asked(RemoveImage(image="nginx")) == ImageRemoved()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (PullImage(image="nginx"), "runs only its built-in image"),
        (RemoveImage(image="nodeagent.local/host"), "built in and cannot be removed"),
        (ImageFsUsage(), "keeps no images on any file system"),
    ],
)
def test_what_one_image_cannot_do_is_refused_in_words(call, says):
    refused = asked(call)
    assert refused.kind is FailureKind.REJECTED
    assert says in refused.message

"""Credentials: which fit, in which order they are tried, and that nothing of them shows."""

import base64
import json

import pytest

from actors.images.keyring import fits, fitting, key_of, offers
from api.errors import FailureKind, RejectedError
from api.kube import dockerconfig
from api.messages.images import Credential, WantImages
from api.ports.credentials import NodeCredentials
from api.ports.images import ImageAuth, PullImage
from api.ports.manifests import Problem
from runtime.kernel.shell import action_brief
from tests.unit.actors.images.hand import ALWAYS, Puller, failure, row, want

SECRET = "hunter2-very-secret"
TEAM = "r.example.com/team/app:1"


def credential(where, password="p", **more):
    return Credential(where=where, auth=ImageAuth(username="u", password=password, **more))


def wheres(found):
    return [one.where for one in found]


@pytest.mark.parametrize(
    ("where", "key"),
    [
        ("https://index.docker.io/v1/", "index.docker.io"),
        ("https://index.docker.io/v1", "index.docker.io"),
        ("http://r.example.com/v2/", "r.example.com"),
        ("r.example.com/v2/team", "r.example.com/team"),
        ("r.example.com/", "r.example.com"),
        ("r.example.com:5000/team", "r.example.com:5000/team"),
        ("https://user:word@r.example.com", "r.example.com"),
    ],
)
def test_a_key_is_a_place_without_scheme_user_and_version(where, key):
    assert key_of(where) == key


@pytest.mark.parametrize(
    ("key", "repository", "expected"),
    [
        ("r.example.com", "r.example.com/a", True),
        ("r.example.com", "x.example.com/a", False),
        ("*.example.com", "r.example.com/a", True),
        ("*.example.com", "a.r.example.com/a", False),
        ("*.*.com", "r.example.com/a", True),
        ("r?.example.com", "r1.example.com/a", True),
        ("r[^2].example.com", "r1.example.com/a", True),
        ("r[^2].example.com", "r2.example.com/a", False),
        ("r.example.com:5000", "r.example.com/a", False),
        ("r.example.com", "r.example.com:5000/a", False),
        ("*.example.com:5000", "r.example.com:5000/a", True),
        ("r.example.com/team", "r.example.com/team-a/app", True),
        ("r.example.com/team/", "r.example.com/team-a/app", False),
        ("[::1]:5000", "[::1]:5000/a", True),
    ],
)
def test_a_key_fits_by_label_port_and_beginning_of_the_path(key, repository, expected):
    assert fits(key, repository) is expected


def test_longer_paths_are_tried_first_and_several_of_one_place_in_their_order():
    ring = (
        credential("r.example.com", "1"),
        credential("r.example.com/team", "2"),
        credential("r.example.com", "3"),
        credential("other.example.com", "4"),
    )
    assert [one.auth.password for one in fitting(TEAM, ring)] == ["2", "1", "3"]


@pytest.mark.parametrize("image", ["busybox", "team/app:1", "docker.io/library/busybox@sha256:" + "a" * 64])
def test_images_of_docker_hub_take_the_credentials_of_its_index(image):
    assert wheres(fitting(image, (credential("https://index.docker.io/v1/"),)))
    assert wheres(fitting(image, (credential("docker.io", "1"), credential("index.docker.io", "2")))) == [
        "docker.io"
    ]
    assert not fitting("r.example.com/busybox", (credential("index.docker.io"),))


def test_the_pods_own_come_before_the_nodes_and_equal_ones_are_tried_once():
    found = offers(
        TEAM,
        (credential("r.example.com", "pod"),),
        (credential("r.example.com/team", "node"), credential("r.example.com", "pod")),
    )
    assert [one.auth.password for one in found] == ["pod", "node"]


# ---------------------------------------------------------------- reading


def basic(text):
    return base64.b64encode(text.encode()).decode()


def test_both_forms_of_a_file_are_read():
    entry = {"r.example.com": {"auth": basic("u:p:q")}, "x": {"username": "a", "password": "b"}}
    expected = (
        Credential(where="r.example.com", auth=ImageAuth(username="u", password="p:q")),
        Credential(where="x", auth=ImageAuth(username="a", password="b")),
    )
    assert dockerconfig.read_config_json(json.dumps({"auths": entry})) == expected
    assert dockerconfig.read_config(json.dumps(entry).encode()) == expected


def test_the_encoded_form_wins_and_tokens_are_taken_along():
    text = json.dumps({"x": {"auth": basic("u:p").rstrip("="), "username": "z", "identitytoken": "t"}})
    assert dockerconfig.read_config(text)[0].auth == ImageAuth(username="u", password="p", identity_token="t")


def test_an_entry_without_anything_in_it_hides_no_other_credentials():
    assert dockerconfig.read_config_json('{"auths": {"x": {}}, "credsStore": "desktop"}') == ()
    assert dockerconfig.read_config_json("{}") == ()


@pytest.mark.parametrize(
    "content",
    [
        f'{{"auths": "{SECRET}',
        f'["{SECRET}"]',
        f'{{"auths": "{SECRET}"}}',
        f'{{"auths": {{"x": "{SECRET}"}}}}',
        f'{{"auths": {{"x": {{"auth": "{SECRET}!"}}}}}}',
        f'{{"auths": {{"x": {{"auth": "{basic(SECRET)}"}}}}}}',
        f'{{"auths": {{"{SECRET}": {{"username": 5}}}}}}',
        b"\xff\xfe" + SECRET.encode(),
    ],
)
def test_what_is_wrong_with_a_file_is_told_without_its_content(content):
    with pytest.raises(RejectedError) as caught:
        dockerconfig.read_config_json(content)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


# ---------------------------------------------------------------- in a pull


def denied(message):
    return failure(message, FailureKind.DENIED)


def test_without_a_fitting_credential_the_pull_is_anonymous():
    puller = Puller()
    puller.want(want(TEAM, ALWAYS), credentials=(credential("other.example.com"),))
    puller.read(credential("x.example.com"))
    assert puller.calls(PullImage) == [PullImage(image=TEAM)]


def test_each_fitting_credential_is_tried_until_one_succeeds():
    puller = Puller()
    puller.want(want(TEAM, ALWAYS), credentials=(credential("r.example.com", "bad"),))
    puller.read(credential("r.example.com", "good"))
    assert puller.pull(failure=denied("no")).auth.password == "bad"
    assert puller.pull().auth.password == "good"
    puller.look(row())
    assert puller.report().pulled


def test_when_all_are_refused_each_is_told_and_that_nothing_was_tried_without():
    puller = Puller()
    puller.want(want(TEAM, ALWAYS), credentials=(credential("r.example.com", "a"),))
    puller.read(credential("r.example.com/team", "b"))
    puller.pull(failure=denied("first no"))
    puller.pull(failure=denied("second no"))
    assert not puller.calls(PullImage), "never without credentials"
    told = puller.report()
    assert told.reason == "ErrImagePull"
    assert told.message == (
        "all 2 matching credentials failed: r.example.com: first no; r.example.com/team: second no; credentials for"
        " r.example.com, r.example.com/team were refused; no anonymous pull is tried while a matching pull secret exists"
    )


def test_broken_credentials_of_the_node_do_not_keep_a_pull_from_being_tried():
    for broken in (
        {"problems": (Problem(where="/root/.docker/config.json", message="the content is not JSON"),)},
        {"failure": failure("/root/.docker/config.json: the content is not JSON")},
    ):
        puller = Puller()
        puller.want(want(TEAM, ALWAYS))
        puller.read(**broken)
        puller.pull(failure=denied("no"))
        assert puller.report().message.endswith(
            "node credentials could not be read: /root/.docker/config.json: the content is not JSON"
        )


def test_pods_with_other_credentials_for_the_image_pull_for_themselves():
    puller = Puller()
    puller.want(want(TEAM, ALWAYS), uid="u1", credentials=(credential("r.example.com", "a"),))
    same = (credential("r.example.com", "a"), credential("not.this.one", "c"))
    puller.want(want(TEAM, ALWAYS), uid="u2", credentials=same)
    puller.want(want(TEAM, ALWAYS), uid="u3", credentials=(credential("r.example.com", "b"),))
    assert len(puller.state.pulls) == 2


def test_nothing_of_a_credential_is_ever_shown():
    secret = credential("https://user:" + SECRET + "@r.example.com", SECRET, identity_token=SECRET)
    message = WantImages(uid="u1", wants=(want(TEAM, ALWAYS),), credentials=(secret,))
    shown = [repr(secret), repr(message), message.brief(), repr(NodeCredentials(credentials=(secret,)))]
    puller = Puller()
    actions = [*puller.give(message)]
    shown.append(repr(puller.state))
    puller.read(secret)
    actions += puller.calls(PullImage)
    shown += [repr(puller.state), *(call.brief() for call in puller.calls(PullImage))]
    puller.pull(failure=denied(f"401 for {SECRET}"))
    shown += [repr(puller.state), *(repr(told) + told.brief() for _, told in puller.told)]
    shown += [repr(action) + action_brief(action) for action in actions]
    for text in shown:
        assert SECRET not in text, text

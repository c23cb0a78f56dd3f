"""Secrets never show: values of environment variables, of manifest headers, of passwords in URLs."""

import base64
import json
import stat
from pathlib import Path

import pytest

from tests.harness.agent.agent import pod

SECRET = "s3cr3t-Tr0ub4dor"
NUMBER = 987654321987
HEADER = "Bearer-h34d3r-v4lue"
PASSWORD = "p4ssw0rd-in-url"
SECRETS = (SECRET, str(NUMBER), HEADER, PASSWORD)


def encodings(secret):
    """Return a secret as it may stand in a file: as it is, and inside base64 at each of its three alignments."""
    # The first and last characters of base64 hold bits of the neighbours.
    inside = [base64.b64encode(b"-" * skip + secret.encode())[4:-4] for skip in range(3)]
    return [secret.encode(), *inside]


def leaks(text):
    """Return which secrets a text holds."""
    data = text if isinstance(text, bytes) else text.encode()
    return [secret for secret in SECRETS if any(form in data for form in encodings(secret))]


@pytest.fixture
def full_of_secrets(agent, silent_server):
    """Return a running agent whose every input holds a secret, well formed or not."""
    env = {"DB_PASSWORD": SECRET, "WITH_REFERENCE": f"$(DB_PASSWORD) {SECRET}"}
    agent.put("good", 'sleep 1000000 "$@"', env=env)
    agent.put("fails", "exit 3", env=env)
    whole = pod("nocommand", "", folder=agent.folder, env=env)
    whole["spec"]["containers"][0]["command"] = ["no-such-program", "$(DB_PASSWORD)"]
    agent.write("nocommand.yaml", json.dumps(whole))
    agent.put("noimage", "exit 0", env=env, image="example.org/private:1")
    wrong = {
        "badname": {"name": "BAD=NAME", "value": SECRET},
        "notext": {"name": "PIN", "value": NUMBER},
        "nested": {"name": "PIN", "value": {"inner": SECRET}},
        "both": {"name": "PIN", "value": SECRET, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        "misspelt": {"name": "PIN", "vlaue": SECRET},
        "swapped": {"value": SECRET},
    }
    for name, variable in wrong.items():
        whole = pod(name, "exec sleep 1000000", folder=agent.folder)
        whole["spec"]["containers"][0]["env"].append(variable)
        agent.write(f"{name}.yaml", json.dumps(whole))
    agent.write("unclosed.yaml", f'kind: Pod\nspec:\n  containers:\n  - env:\n    - value: "{SECRET}\n')
    agent.write("tagged.yaml", f"kind: Pod\nspec:\n  env: !secret {SECRET}\n")
    agent.write("anchor.yaml", f"kind: Pod\nspec:\n  env: *{SECRET}\n")
    agent.write("twice.yaml", f"kind: Pod\nspec:\n  value: {SECRET}\n  value: {SECRET}\n")
    url = silent_server.replace("http://", f"http://user:{PASSWORD}@")
    agent.start(
        "--manifest-url", url, "--manifest-url-header", f"Authorization={HEADER}", "--v", "9", ready=False
    )
    agent.until_status("good", "Running")
    agent.until(lambda: agent.row("fails")["restarts"] >= 1, "fails was restarted")
    agent.until(lambda: agent.row("nocommand")["restarts"] >= 1, "nocommand was restarted")
    agent.until_source("swapped.yaml", "broken")
    agent.until(
        lambda: len(list((agent.root / "ledger/manifests").iterdir())) >= 4, "manifests are remembered"
    )
    return agent


def test_no_secret_shows_in_the_log_at_the_highest_verbosity(full_of_secrets):
    agent = full_of_secrets
    assert "manifest accepted" in agent.stderr()
    assert agent.source("badname.yaml")["status"] == "broken"
    assert agent.source("notext.yaml")["status"] == "broken"
    agent.stop()
    shown = [line for line in agent.stderr().splitlines() if leaks(line)]
    assert not shown


def test_user_password_and_query_of_a_url_show_nowhere(agent, silent_server):
    url = silent_server.replace("http://", f"http://{SECRET}:{PASSWORD}@") + f"?token={HEADER}"
    agent.start("--manifest-url", url, "--v", "9", manifests=False, ready=False)
    agent.until(lambda: "unreachable" in json.dumps(agent.json("/sources")), "the URL's silence is told")
    targets = (
        "/sources",
        "/events",
        "/actors?detail=true",
        "/actors/node/http?n=1000",
        "/trace/node/http?n=1000",
    )
    answers = {target: agent.ask(target) for target in targets}
    assert {status for status, _ in answers.values()} == {200}
    assert not {target: leaks(body) for target, (_, body) in answers.items() if leaks(body)}
    agent.stop()
    assert "agent started" in agent.stderr()
    assert silent_server in agent.stderr()
    assert not [line for line in agent.stderr().splitlines() if leaks(line)]


def test_no_secret_shows_in_any_answer(full_of_secrets):
    agent = full_of_secrets
    paths = [row["path"] for row in agent.json("/actors")["actors"]]
    assert len(paths) > 5
    targets = [
        "/actors?detail=true",
        "/actors/summary",
        "/dead-letters",
        "/pods",
        "/pods?format=rows",
        "/events",
        "/sources",
    ]
    targets += [f"/explain/-/{name}" for name in agent.rows()]
    targets += [f"{view}{path}?n=1000" for path in paths for view in ("/actors", "/trace")]
    answers = {target: agent.ask(target) for target in targets}
    assert {status for status, _ in answers.values()} == {200}
    assert b"DB_PASSWORD" in answers["/pods"][1], "the names of variables do show"
    assert not {target: leaks(body) for target, (_, body) in answers.items() if leaks(body)}


def test_no_secret_shows_in_what_the_verbs_print(full_of_secrets):
    agent = full_of_secrets
    verbs = [
        ("pods", "-o", "json"),
        ("pods", "-o", "wide"),
        ("explain", "fails"),
        ("explain", "nocommand"),
        ("events",),
        ("sources",),
        ("actors", "--detail"),
        ("trace", "/node/http"),
        ("trace", "/node/file"),
        ("logs", "fails"),
    ]
    printed = [agent.verb(*words) for words in verbs]
    files = [str(path) for path in agent.manifests.iterdir()]
    printed.append(agent.verb_alone("validate", *files))
    assert "badname.yaml" in printed[-1].stdout
    assert not [leaks(one.stdout + one.stderr) for one in printed if leaks(one.stdout + one.stderr)]


def test_no_file_that_another_user_may_read_holds_a_secret(full_of_secrets):
    agent = full_of_secrets
    files = [path for folder in (agent.root, agent.logs) for path in folder.rglob("*") if path.is_file()]
    holders = [path for path in files if leaks(path.read_bytes())]
    # Only what the agent must remember of a file holds them, in folders that are nobody else's business.
    ledger = agent.root / "ledger"
    assert {path.parent for path in holders} == {ledger / "manifests"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in holders} == {0o600}
    for folder in (ledger, *ledger.iterdir()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder


def test_no_environment_variable_of_the_agent_reaches_keepers_or_containers(agent):
    dump = agent.folder / "environment"
    agent.put("web", f"env >{dump}.new; mv {dump}.new {dump}; exec sleep 1000000")
    agent.start(env={"AGENT_TOKEN": SECRET})
    agent.until(dump.exists, "the container wrote its environment")
    assert "NODEAGENT_SANDBOX_ID" in dump.read_text()
    assert not leaks(dump.read_text())
    assert len(agent.pod_keepers()) == 1
    for pid in agent.keepers():
        assert not leaks(Path(f"/proc/{pid}/environ").read_bytes())

"""What a linter does not know of this house: words, places and habits, read from the source."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "runtime" / "wire" / "generated"
PRODUCT = ("actors", "api", "runtime")
BANNED_WORDS = {"util", "utils", "helper", "helpers", "common", "misc", "base", "impl"}
BANNED_PREFIXES = ("do_", "handle_")
IMPURE_MODULES = {
    "time",
    "sleep",
    "threading",
    "queue",
    "asyncio",
    "random",
    "socket",
    "subprocess",
    "signal",
}
IMPURE_NAMES = {"datetime.now", "datetime.utcnow", "datetime.today", "os.environ", "os.getenv", "time.sleep"}
CATCHES_ALL = (
    "runtime/kernel/",
    "runtime/drivers/embedded/driver.py",
    "runtime/drivers/embedded/keeper/",
    "runtime/server/",
    "runtime/drivers/net/conversation.py",
    "runtime/drivers/kube/identity.py",
    "runtime/net/loop.py",
)
"""Where a bug must not end what everybody stands on, or is the last thing of a process; each such line says why."""


def composition_root():
    """Return the modules that the import law lets import everything."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    exceptions = [line for contract in contracts for line in contract.get("ignore_imports", ())]
    free = [line.removesuffix(" -> **") for line in exceptions if line.endswith(" -> **")]
    return {ROOT / f"{name.replace('.', '/')}.py" for name in free}


@cache
def tree_of(path):
    return ast.parse(path.read_text(), str(path))


def sources(*folders):
    return [
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.is_relative_to(GENERATED)
    ]


def mentions(path, pattern):
    """Tell whether this stands in a file, which costs less than a look at its tree."""
    return re.search(pattern, path.read_text()) is not None


def where(path, node):
    return f"{path.relative_to(ROOT)}:{node.lineno}"


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node, node.module
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def definitions(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node


def words(name):
    return {word.lower() for part in name.split("_") for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", part)}


def impurities(path):
    tree = tree_of(path)
    for node, name in imported(tree):
        if name.split(".")[0] in IMPURE_MODULES or name in IMPURE_NAMES:
            yield f"{where(path, node)} imports {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in IMPURE_NAMES:
                yield f"{where(path, node)} uses {name}"


def test_actors_have_no_clock_no_thread_no_chance_and_no_environment():
    root = composition_root()
    found = [line for path in sources("actors") if path not in root for line in impurities(path)]
    assert found == []
    assert len(root) < 10


def catches_everything(node):
    if not isinstance(node, ast.ExceptHandler):
        return False
    if isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None:
        return False  # It only cleans up.
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(
        k is None or (isinstance(k, ast.Name) and k.id in ("Exception", "BaseException")) for k in kinds
    )


def test_bugs_are_caught_only_where_many_stand_on_one_thread():
    found = [
        where(path, node)
        for path in sources(*PRODUCT)
        if mentions(path, r"except(:|.*\bException|.*\bBaseException)|except\s*\(\s*\n")
        for node in ast.walk(tree_of(path))
        if catches_everything(node) and not str(path.relative_to(ROOT)).startswith(CATCHES_ALL)
    ]
    assert found == []


def test_no_module_and_no_definition_has_a_name_that_says_nothing():
    found = [
        str(path.relative_to(ROOT))
        for path in sources(*PRODUCT, "tests")
        if words(path.stem) & BANNED_WORDS or path.parent.name in BANNED_WORDS
    ]
    found += [
        f"{where(path, node)} {node.name}"
        for path in sources(*PRODUCT)
        for node in definitions(tree_of(path))
        if words(node.name) & BANNED_WORDS or node.name.startswith(BANNED_PREFIXES)
    ]
    assert found == []


def undocumented(path):
    tree = tree_of(path)
    if not ast.get_docstring(tree):
        yield f"{path.relative_to(ROOT)}: the module"
    holders = [
        tree,
        *(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and not n.name.startswith("_")),
    ]
    for holder in holders:
        for node in holder.body:
            named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if named and not node.name.startswith("_") and not ast.get_docstring(node):
                yield f"{where(path, node)} {node.name}"


def test_public_names_say_what_they_are_for():
    assert [line for path in sources(*PRODUCT) for line in undocumented(path)] == []


def waits_or_pretends(path):
    if not mentions(path, r"mock|(time|asyncio)\s*\.\s*sleep|from (time|asyncio) import"):
        return
    tree = tree_of(path)
    for node, name in imported(tree):
        if name.startswith("unittest.mock") or name in ("time.sleep", "asyncio.sleep"):
            yield f"{where(path, node)} {name}"
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "sleep")
    for node in calls:
        if isinstance(node.value, ast.Name) and node.value.id in ("time", "asyncio"):
            yield f"{where(path, node)} sleeps"


def test_tests_use_fakes_and_never_sleep():
    assert [line for path in sources("tests") for line in waits_or_pretends(path)] == []


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (impurities, "import time\n"),
        (impurities, "from os import environ\nimport os\nos.environ\n"),
        (impurities, "from datetime import datetime\ndatetime.now()\n"),
        (undocumented, "def public():\n    pass\n"),
        (undocumented, '"""M."""\nclass Public:\n    pass\n'),
        (waits_or_pretends, "from unittest import mock\n"),
        (waits_or_pretends, "from time import sleep\n"),
        (waits_or_pretends, "import time\ntime.sleep(1)\n"),
    ],
)
def test_these_checks_can_fail(check, text, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "x.py"
    path.write_text(text)
    assert list(check(path))


def types_decoded(tree):
    """Yield each call that has msgspec fit data to a type, and the type that is given to it."""
    for node in ast.walk(tree):
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if name == "msgspec.convert":
            yield node, node.args[1]
        elif re.fullmatch(r"msgspec\.(json|msgpack)\.Decoder", name):
            yield from ((node, kind) for kind in node.args[:1])
        elif re.fullmatch(r"msgspec\.(json|msgpack)\.decode", name):
            yield from ((node, word.value) for word in node.keywords if word.arg == "type")


def test_every_type_that_is_decoded_was_made_ready():
    """Two threads that decode one type for the first time end the process: see `api.decoding`."""
    found, bare = 0, []
    for path in sources(*PRODUCT):
        if path.name == "decoding.py" or not mentions(path, r"msgspec\.(convert|json|msgpack)"):
            continue
        for call, kind in types_decoded(tree_of(path)):
            found += 1
            if not (isinstance(kind, ast.Call) and ast.unparse(kind.func) == "ready"):
                bare.append(where(path, call))
    assert bare == []
    assert found > 10

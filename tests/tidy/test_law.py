"""Laws that imports cannot show: each class name once, no dead code, no message and no field of one that nobody reads."""

import ast
import builtins
import importlib
import inspect
from collections import defaultdict
from pathlib import Path

import msgspec
import pytest

from api.messages import Message

ROOT = Path(__file__).parents[2]
PRODUCT = ("actors", "api", "runtime")
FAKES = ("runtime/drivers/memory/", "runtime/kernel/sim.py")
"""The world in memory and the executor of simulations are used by the tests alone."""

LOOKED_AT_BY_TESTS = {
    "runtime/drivers/host/usage/turn.py": {"hung"},
    "runtime/kernel/mailbox.py": {"balanced"},
    "runtime/kernel/pooled.py": {"halt"},
}
"""What the product has so that a test can look into it, or end it without a word."""

CALLED_FROM_OUTSIDE = {
    "runtime/kernel/cell.py": {"_create_actor_inbox", "_create_future", "_start_actor_loop"},
    "runtime/drivers/net/url.py": {"http_open", "https_open"},
    "runtime/logs.py": {"emit"},
}
"""What a library calls by its name: pykka's seam, urllib's, and that of the standard library's logging."""

CALLED_BY_WORD = {"runtime/drivers/embedded/keeper/pod.py": "op_"}
"""Methods that are found by the word of a request: their prefix."""

RECEIVERS = {
    "admission": ("actors/admission", "actors/rules/resources"),
    "apievents": ("actors/apievents", "actors/rules"),
    "apistatus": ("actors/apistatus", "actors/mirrors"),
    "cgroups": ("actors/cgroups",),
    "events": ("actors/events",),
    "eviction": ("actors/eviction",),
    "imagegc": ("actors/imagegc",),
    "images": ("actors/images", "actors/pod", "actors/imagegc"),
    "node": ("actors/node", "actors/supervisor", "actors/cgroups", "actors/usage", "actors/nodestatus"),
    "nodestatus": ("actors/nodestatus", "actors/node", "actors/lease", "actors/mirrors"),
    "pleg": ("actors/pleg",),
    "pod": ("actors/pod",),
    "podconfig": ("actors/sources",),
    "probes": ("actors/probes",),
    "status": ("actors/status",),
    "supervisor": ("actors/supervisor", "actors/pod"),
    "usage": ("actors/usage", "actors/eviction", "actors/imagegc"),
}
"""Who reads the messages of a file of `api.messages`: the actor that it is named after, and those that get its answers."""


def trees(*folders):
    """Return path and tree of each source file."""
    files = [
        f for folder in folders for f in sorted((ROOT / folder).rglob("*.py")) if "generated" not in f.parts
    ]
    return [(file, ast.parse(file.read_text(), str(file))) for file in files]


def defined(tree):
    """Yield each name that a module defines for others: functions, methods, classes, and its own constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from ((t.id, t.lineno) for t in targets if isinstance(t, ast.Name))


def used(tree):
    """Yield each name that a module uses; an import alone is no use."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names if alias.asname)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


def unused(product, beside):
    """Return each definition of `product` that neither it nor `beside` uses."""
    names = {name for _, tree in [*product, *beside] for name in used(tree)}
    found = []
    for file, tree in product:
        where = file.relative_to(ROOT).as_posix()
        outside = CALLED_FROM_OUTSIDE.get(where, set()) | LOOKED_AT_BY_TESTS.get(where, set())
        prefix = CALLED_BY_WORD.get(where, "__")
        found += [
            f"{where}:{line} {name}"
            for name, line in defined(tree)
            if name not in names and name not in outside and not name.startswith((prefix, "__"))
        ]
    return found


def test_nothing_is_defined_that_nobody_uses():
    everything = trees(*PRODUCT)
    fakes = [(f, tree) for f, tree in everything if f.relative_to(ROOT).as_posix().startswith(FAKES)]
    real = [one for one in everything if one not in fakes]
    assert unused(real, fakes) == []
    assert unused(fakes, [*real, *trees("tests")]) == []


def test_each_class_has_a_name_of_its_own():
    places = defaultdict(list)
    for file, tree in trees(*PRODUCT):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(file.relative_to(ROOT).as_posix())
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
    assert not places.keys() & set(dir(builtins))


def structs(name):
    """Return the structs that a file of `api.messages` defines: messages, and parts of them."""
    module = importlib.import_module(f"api.messages.{name}")
    return [
        one
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, msgspec.Struct) and one.__module__ == module.__name__
    ]


def read_in(parsed):
    """Return the classes that are told apart in these files, and the fields that are read there."""
    classes, fields = set(), set()
    for _, tree in parsed:
        for node in ast.walk(tree):
            if isinstance(node, ast.MatchClass):
                classes.add(ast.unparse(node.cls).rpartition(".")[2])
                fields.update(node.kwd_attrs)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                classes.update(n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name))
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                fields.add(node.attr)
    return classes, fields


def made_in(parsed):
    """Return the names of all classes and functions that are called in these files."""
    calls = (node for _, tree in parsed for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {ast.unparse(node.func).rpartition(".")[2] for node in calls}


def test_every_message_is_sent_by_somebody():
    made = made_in(trees(*PRODUCT))
    messages = {one.__name__ for name in RECEIVERS for one in structs(name) if issubclass(one, Message)}
    assert messages - made == set()


@pytest.mark.parametrize("name", RECEIVERS)
def test_every_message_and_each_of_its_fields_is_read_by_its_receiver(name):
    """Or by the message itself, for its line in a trace."""
    classes, fields = read_in(trees(*RECEIVERS[name]))
    fields |= read_in([(ROOT, ast.parse((ROOT / "api" / "messages" / f"{name}.py").read_text()))])[1]
    own = structs(name)
    unread = [one.__name__ for one in own if issubclass(one, Message) and one.__name__ not in classes]
    unread += [
        f"{one.__name__}.{field}" for one in own for field in one.__annotations__ if field not in fields
    ]
    assert unread == []


def test_every_file_of_messages_has_a_receiver_here():
    files = {file.stem for file in (ROOT / "api" / "messages").glob("*.py")}
    assert files - {"__init__", "kernel"} == set(RECEIVERS)


def test_these_checks_can_fail(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "x.py").write_text("def dead(): pass\ndef alive(): pass\nalive()\nLOST = 1\n")
    parsed = [(tmp_path / "x.py", ast.parse((tmp_path / "x.py").read_text()))]
    assert unused(parsed, []) == ["x.py:1 dead", "x.py:4 LOST"]
    assert made_in(parsed) == {"alive"}
    match = ast.parse("match m:\n    case A(b=1): m.c\n")
    assert read_in([(tmp_path, match)]) == ({"A"}, {"b", "c"})

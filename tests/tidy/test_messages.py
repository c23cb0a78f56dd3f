"""What imports cannot show about messages: frozen data, and each union exactly its file's classes."""

import importlib
import inspect
import pkgutil
import types

import msgspec
import pytest

import api.messages
from api.messages import Message

MODULES = [m.name for m in pkgutil.iter_modules(api.messages.__path__)]


def union_of(module: types.ModuleType) -> tuple[type, ...]:
    """Return the members of the module's message union: the one name of its own that ends in ``Message``."""
    for name, value in vars(module).items():
        if name.endswith("Message") and isinstance(value, types.UnionType):
            return value.__args__
        if name.endswith("Message") and value is not Message and inspect.isclass(value):
            return (value,)
    return ()


@pytest.mark.parametrize("name", MODULES)
def test_every_message_of_a_file_is_in_its_union(name):
    module = importlib.import_module(f"api.messages.{name}")
    own = {
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Message) and value.__module__ == module.__name__
    }
    assert own
    assert own <= set(union_of(module))


@pytest.mark.parametrize("name", MODULES)
def test_messages_are_frozen_and_tagged(name):
    module = importlib.import_module(f"api.messages.{name}")
    for value in vars(module).values():
        if inspect.isclass(value) and issubclass(value, Message):
            config = value.__struct_config__
            assert config.frozen
            assert config.tag is not None
            for field in msgspec.structs.fields(value):
                assert "Mapping" not in str(field.type)
                assert "set[" not in str(field.type)

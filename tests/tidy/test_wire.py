"""The generated code is what the compiler makes of our .proto, and no more than it."""

import pytest

from tests.tidy.wire import GENERATED, compiled, compiler_is_there


def test_the_generated_code_is_made_from_the_proto():
    if not compiler_is_there():
        pytest.skip(
            "grpcio-tools is missing: pip install grpcio-tools, or bin/check, which installs the dev extras"
        )
    made = compiled()
    there = {path.name: path.read_text() for path in GENERATED.iterdir() if path.suffix in (".py", ".pyi")}
    del there["__init__.py"]
    assert there == made, "run: python -m tests.tidy.wire"

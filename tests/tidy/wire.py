"""Make the code in ``runtime/wire/generated`` from ``runtime/wire/proto``: ``python -m tests.tidy.wire``.

The compiler is ``grpcio-tools`` (in the development extras). What it writes refuses every protobuf runtime older than
itself, which is more than our dependencies ask for; that check and the version in the head are taken out, because the
rest of the text works with every runtime that we allow.
"""

import importlib.util
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROTO = ROOT / "runtime" / "wire" / "proto"
GENERATED = ROOT / "runtime" / "wire" / "generated"
HEAD = '"""Made by `python -m tests.tidy.wire`; not for editing."""\n'
COMPILER = "grpc_tools"


def compiler_is_there():
    """Say whether grpcio-tools is installed."""
    return importlib.util.find_spec(COMPILER) is not None


def plain(text):
    """Return generated code without its head and without the check of the runtime's version."""
    kept = []
    in_check = False
    for line in text.splitlines():
        if in_check:
            in_check = line != ")"
        elif line.startswith("_runtime_version.ValidateProtobufRuntimeVersion"):
            in_check = True
        elif not line.startswith(("# ", '"""Generated')) and not line.endswith(
            "import runtime_version as _runtime_version"
        ):
            kept.append(line)
    return HEAD + "\n".join(kept).strip() + "\n"


def compiled():
    """Return {file name: text} of everything that is generated."""
    from grpc_tools import protoc  # noqa: PLC0415 it may be missing

    with tempfile.TemporaryDirectory() as folder:
        protos = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
        arguments = ["protoc", f"--proto_path={PROTO}", f"--python_out={folder}", f"--pyi_out={folder}"]
        if protoc.main([*arguments, *protos]) != 0:
            sys.exit("protoc refused the files above")
        return {path.name: plain(path.read_text()) for path in sorted(Path(folder).iterdir())}


if __name__ == "__main__":
    if not compiler_is_there():
        sys.exit("grpcio-tools is missing: pip install grpcio-tools")
    for name, text in compiled().items():
        (GENERATED / name).write_text(text)

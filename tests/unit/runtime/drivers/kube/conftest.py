"""A bench for each test, closed at its end."""

import contextlib

import pytest

from tests.harness.kubebench import Bench


@pytest.fixture
def make(tmp_path):
    with contextlib.ExitStack() as ends:

        def made(handle, **options):
            bench = Bench(tmp_path, handle, **options)
            ends.callback(bench.close)
            return bench

        yield made

"""What all tests share: the mark of integration tests, and what happens when a real part is missing."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("any machine", deadline=None)
"""An example that takes long says something of the machine, and nothing of what is tested."""
settings.load_profile("any machine")

pytest_plugins = ("tests.harness.cri.lab", "tests.harness.cluster.plane")

INTEGRATION = Path(__file__).parent / "integration"
REQUIRED = bool(os.environ.get("NODEAGENT_REQUIRE"))


@pytest.fixture(scope="session", autouse=True)
def _known_signals():
    """Children of tests start with default signals, also below nohup or a script, which ignore some for all they start.

    A handler ends with exec, an ignored signal does not; with one that does nothing, what runs the tests goes on as it was told to.
    """
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "optional: needs a part that no package of the distribution brings")
    config.addinivalue_line("markers", "integration: real sockets, processes and the agent as a subprocess")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if INTEGRATION in item.path.parents:
            item.add_marker("integration")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Where every mandatory part is required, a test of a real part that skips has failed."""
    report = yield
    mandatory = item.get_closest_marker("real") and not item.get_closest_marker("optional")
    if REQUIRED and report.skipped and mandatory and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"a mandatory part is missing: {report.longrepr}"
    return report

"""``nodeagent run``: from arguments and configuration to a running agent, and to its end."""

import argparse
import os
import socket
import sys
from pathlib import Path

from actors.agent.agent import Agent
from actors.views.view import AgentView
from api.config.settings import Configured, Flags, Machine, configure
from api.errors import RejectedError
from api.ports.manifests import Problem
from api.shown.introspection import PodRow, SourceRow
from runtime import logs
from runtime.drivers.host.manifests.yamltext import read_document
from runtime.process import StopSignals, ThreadEnds
from runtime.trust import read_regular

LOOK_S = 0.2
"""How often ``--runonce`` checks the pods, and the main thread the health of the actor system."""
CAME_UP = ("Running", "Completed")
DEBUG_VERBOSITY = 4


def run(args: argparse.Namespace) -> int:
    """Run the agent until it is stopped; return the exit status. Raises an `OperatingError` of one line."""
    configured = read_settings(args)
    if configured.settings is None:
        for problem in configured.problems:
            print(f"nodeagent: {problem.where}: {problem.message}", file=sys.stderr)
        return 1
    settings = configured.settings
    if args.runonce and settings.cluster.kubeconfig:
        raise RejectedError(
            "--runonce starts static pods and ends, but a cluster sends pods at any time; leave out --runonce or --kubeconfig"
        )
    level = "DEBUG" if settings.verbosity >= DEBUG_VERBOSITY else "INFO"
    logs.setup(form=settings.log_format, level=level)
    log = logs.log_factory("")
    for warning in configured.warnings:
        log.warning("configuration field not supported yet", where=warning.where)
    signals = StopSignals()
    threads = ThreadEnds()
    agent = Agent(settings, settings.cluster.primary_ip, injects_faults=args.enable_fault_injection)
    agent.start()
    if not (settings.pod_manifest_path or settings.manifest_url or settings.cluster.kubeconfig):
        log.warning(
            "no source of pods configured: no pod will run",
            what_to_do="set --pod-manifest-path, --manifest-url or --kubeconfig",
        )
    try:
        return run_once(agent, signals, threads) if args.runonce else run_on(agent, signals, threads)
    finally:
        threads.close()
        agent.stop()
        signals.close()


def run_on(agent: Agent, signals: StopSignals, threads: ThreadEnds) -> int:
    """Wait until a signal comes, the actor system is past saving, or a thread ended."""
    log = logs.log_factory("")
    while True:
        why = signals.wait(1.0)
        if why:
            log.info("stopping", signal=why)
            return 0
        failed = agent.failure()
        if failed:
            log.error("the actor system ended", cause=failed)
            return 1
        if threads.failure:
            log.error(
                "a thread of the agent failed, the agent exits; pods keep running", cause=threads.failure
            )
            return 1


def run_once(agent: Agent, signals: StopSignals, threads: ThreadEnds) -> int:
    """Wait until every static pod runs or ended, print the result per pod; return 1 if one did not come up."""
    assert agent.view is not None
    before: frozenset[str] = frozenset()
    while not threads.failure and not signals.wait(LOOK_S):
        rows, sources = agent.view.pods(), agent.view.sources()
        decided = frozenset(row.uid for row in rows if is_decided(row))
        # A pod that runs for a moment and then ends has not come up: two checks must agree.
        if (
            agent.view.ready()[1].ok
            and all(row.uid in decided & before for row in rows)
            and len(rows) >= accepted(sources)
        ):
            return print_results(agent.view, rows, sources)
        before = decided
    return 1


def accepted(sources: tuple[SourceRow, ...]) -> int:
    """Return how many pods the sources want."""
    return len({row.pod for row in sources if row.pod and row.status == "accepted"})


def is_decided(row: PodRow) -> bool:
    """Return whether a pod is up, has ended, or cannot come up without help."""
    ready, _, of = row.ready.partition("/")
    if row.status.startswith("Init:") and row.status.removeprefix("Init:")[:1].isdigit():
        return False  # So many of its init containers are done.
    under_way = ("Running", "Pending", "ContainerCreating", "PodInitializing")
    return (row.status == "Running" and ready == of) or row.status not in under_way


def print_results(view: AgentView, rows: tuple[PodRow, ...], sources: tuple[SourceRow, ...]) -> int:
    """Print one line per pod and per manifest that was refused; return the exit status."""
    bad = [row for row in sources if row.status in ("broken", "duplicate", "unreachable")]
    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        why = "" if row.status in CAME_UP else why_not(view, row)
        print(f"{row.name:<{width}}  {row.ready}  {row.status}  {why}".rstrip())
    for source in bad:
        print(f"{source.where}: {source.status}: {'; '.join(source.problems)}")
    return 1 if bad or any(row.status not in CAME_UP for row in rows) else 0


def why_not(view: AgentView, row: PodRow) -> str:
    """Return why a pod did not come up: the messages of its containers, else what it waits for."""
    explained = view.explain(f"{row.namespace}/{row.name}")
    return "; ".join((*explained.problems, *explained.containers)) or row.why


# ---------------------------------------------------------------- settings


def read_settings(args: argparse.Namespace) -> Configured:
    """Return the settings that file, flags and machine come to, or everything that is wrong with them."""
    flags = Flags(
        config=args.config or "",
        root_dir=args.root_dir or "",
        hostname_override=args.hostname_override,
        pod_manifest_path=args.pod_manifest_path,
        manifest_url=args.manifest_url,
        manifest_url_header=tuple(args.manifest_url_header),
        container_runtime_endpoint=args.container_runtime_endpoint,
        image_service_endpoint=args.image_service_endpoint,
        healthz_port=args.healthz_port,
        log_format=args.log_format,
        verbosity=args.verbosity,
        allow_host_image=args.allow_host_image,
        take_over=args.take_over,
        node_labels=args.node_labels,
        kubeconfig=args.kubeconfig or "",
        bootstrap_kubeconfig=args.bootstrap_kubeconfig or "",
        cert_dir=args.cert_dir or "",
        node_ip=args.node_ip,
        register_node=args.register_node,
        provider_id=args.provider_id,
        cloud_provider=args.cloud_provider,
        register_with_taints=args.register_with_taints,
        sandbox_image=args.pod_infra_container_image,
    )
    document: bytes | None = None
    if flags.config:
        read = read_document(read_regular(flags.config), flags.config)
        if read.problems or read.json is None:
            return Configured(
                problems=read.problems or (Problem(where=flags.config, message="the file is empty"),)
            )
        document = read.json
    return configure(document, flags, this_machine())


def this_machine() -> Machine:
    """Return what the settings need to know of this machine and process."""
    home = os.environ.get("XDG_STATE_HOME", "")
    return Machine(
        is_root=os.geteuid() == 0,
        hostname=socket.gethostname(),
        state_home=home if home.startswith("/") else str(Path("~/.local/state").expanduser()),
        working_directory=str(Path.cwd()),
    )

"""The command line: ``nodeagent run`` and the verbs that talk to a running agent."""

import argparse
import sys

from api.errors import OperatingError
from api.ports.manifests import Problem
from runtime.cli.command import VERBS, add_verbs, run_verb


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit status: 0 well, 1 failed, 2 wrongly used."""
    parser = make_parser()
    args = parser.parse_args(argv)
    if args.verb is None:
        parser.print_help(sys.stderr)
        return 2
    if args.verb in VERBS:
        return run_verb(args, check=check_file)
    try:
        from actors.agent.run import run  # noqa: PLC0415  # the verbs must start without the agent's imports

        return run(args)
    except OperatingError as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return 1


def check_file(path: str) -> tuple[Problem, ...]:
    """Check one manifest or configuration file."""
    from actors.agent.validate import problems_of  # noqa: PLC0415

    return problems_of(path)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="nodeagent",
        description="A Kubernetes node agent: runs pods on this machine and explains why one does not run.",
    )
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB")
    run = subparsers.add_parser(
        "run",
        help="run the agent in the foreground",
        description="Run the agent in the foreground; pods keep running when it ends.",
    )
    run.set_defaults(verb="run")
    add_run_flags(run)
    add_verbs(subparsers)
    return parser


def add_run_flags(run: argparse.ArgumentParser) -> None:
    """Add the flags of ``run``; one that is given wins over the configuration file."""
    pods = run.add_argument_group("pods")
    pods.add_argument(
        "--pod-manifest-path", metavar="PATH", help="folder or file of static pods (staticPodPath)"
    )
    pods.add_argument("--manifest-url", metavar="URL", help="URL of a Pod or PodList (staticPodURL)")
    pods.add_argument(
        "--manifest-url-header",
        metavar="K=V",
        action="append",
        default=[],
        help="HTTP header for the URL; may be repeated; the value is never shown",
    )
    pods.add_argument(
        "--allow-host-image",
        action="store_true",
        help="allow the image nodeagent.local/host in pods of a manifest URL",
    )
    pods.add_argument(
        "--take-over", action="store_true", help="adopt pods that other agents made on this runtime"
    )
    pods.add_argument(
        "--runonce",
        action="store_true",
        help="start the static pods, wait until each runs or has ended, print a line per pod, exit",
    )
    node = run.add_argument_group("node")
    node.add_argument(
        "--config", metavar="FILE", help="KubeletConfiguration (kubelet.config.k8s.io/v1beta1), YAML or JSON"
    )
    node.add_argument(
        "--root-dir",
        metavar="DIR",
        default="",
        help="root directory for the agent's files (default: /var/lib/nodeagent as root, else $XDG_STATE_HOME/nodeagent)",
    )
    node.add_argument(
        "--container-runtime-endpoint",
        metavar="URI",
        help="embedded, or unix:///path of a CRI runtime (default embedded, unless --config is given)",
    )
    node.add_argument(
        "--image-service-endpoint",
        metavar="URI",
        help="unix:///path of the CRI image service (default: the container runtime's)",
    )
    node.add_argument(
        "--pod-infra-container-image",
        metavar="IMAGE",
        help="sandbox image: never removed by image garbage collection",
    )
    node.add_argument("--hostname-override", metavar="NAME", help="name of the node (default: the host's)")
    node.add_argument("--node-labels", metavar="K=V,...", default="", help="labels of the node")
    node.add_argument(
        "--register-with-taints",
        metavar="K=V:EFFECT,...",
        help="taints of the node (registerWithTaints); NoExecute rejects pods, except static ones",
    )
    node.add_argument(
        "--node-ip",
        metavar="IP[,IP]",
        default="",
        help="address of the node, or one of each family; 0.0.0.0 or :: only chooses the family",
    )
    node.add_argument(
        "--healthz-port",
        metavar="N",
        type=int,
        help="port of /healthz, /livez, /readyz on loopback (default 10248, 0: none)",
    )
    node.add_argument("--log-format", choices=("text", "json"), help="how the log is written (default text)")
    node.add_argument(
        "--v",
        metavar="N",
        type=int,
        default=None,
        dest="verbosity",
        help="log verbosity: 0 normal, 4 and above for debugging",
    )
    node.add_argument(
        "--enable-fault-injection",
        action="store_true",
        help="inject the faults of the file NODEAGENT_FAULTS; for tests only",
    )
    cluster = run.add_argument_group("cluster")
    cluster.add_argument(
        "--kubeconfig", metavar="FILE", help="how to reach the API server of the cluster whose node this is"
    )
    cluster.add_argument(
        "--bootstrap-kubeconfig",
        metavar="FILE",
        help="identity that requests the node's client certificate while --kubeconfig is absent, or expired; then FILE of"
        " --kubeconfig is written",
    )
    cluster.add_argument(
        "--cert-dir",
        metavar="DIR",
        help="folder of client certificates that the agent requests (default: pki in the root directory)",
    )
    cluster.add_argument(
        "--register-node",
        metavar="true|false",
        nargs="?",
        const=True,
        type=read_bool,
        help="whether the node registers itself with the API server (registerNode; default true)",
    )
    cluster.add_argument("--provider-id", metavar="ID", help="the node's name at its cloud (providerID)")
    cluster.add_argument(
        "--cloud-provider",
        metavar="external",
        default="",
        help="external: a cloud controller initializes the node; until then a taint keeps pods off",
    )


def read_bool(text: str) -> bool:
    """Read ``true`` or ``false`` as a kubelet's flags have it."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


if __name__ == "__main__":
    sys.exit(main())

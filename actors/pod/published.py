"""What the API server shows of a pod that this node knows nothing else of: the status that an agent published there."""

from msgspec.structs import replace

from actors.pod.state import PodState, Recalling, change_view
from actors.pod.status.phase import is_static
from actors.rules.container.knownend import with_known_ends


def with_published_status(state: PodState) -> PodState:
    """Return the state that goes on from a published status, where neither ledger nor this incarnation has one.

    So start time, transition times, restart counts, exit codes and a terminal phase outlive the node's disk (reference
    ``pod-lifecycle`` section 17). A static pod comes from a manifest, which has no status.
    """
    pod = state.desired
    if state.base.phase or isinstance(state.life, Recalling):
        return state
    if pod is None or is_static(pod) or not pod.status.phase:
        return state
    memo = state.memo
    if memo.outdated and memo.outdated == pod.status.start_time:
        # A UID of the API server is of one pod: what the ledger had without a memo was this one's.
        memo = replace(memo, outdated="")
    if state.observed is not None:
        state = change_view(state, observed=with_known_ends(state.observed, None, pod.status))
    return replace(state, base=pod.status, memo=memo)

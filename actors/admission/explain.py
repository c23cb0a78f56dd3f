"""What the admission of a pod waits for, for `nodeagent explain`."""

from actors.admission.state import AdmissionState
from api.ids import Uid


def wait_for_admission(state: AdmissionState, uid: Uid) -> str:
    """Return what the admission of a pod waits for, empty when for nothing."""
    if state.record.recalled is None:
        problem = f": {state.record.problem}" if state.record.problem else ""
        return f"to be admitted, waiting for the ledger to return the stored verdicts{problem}"
    if not state.described:
        return "to be admitted, waiting for the container runtime to return its version"
    entry = state.pods.get(uid)
    if entry is None:
        return "to be admitted"
    if entry.verdict is not None and not entry.kept:
        return "its admission to be written to the ledger"
    return entry.waits

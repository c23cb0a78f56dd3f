"""Explain what the admission of a pod waits for."""

from actors.admission.state import AdmissionState
from api.ids import Uid


def wait_for_admission(state: AdmissionState, uid: Uid) -> str:
    """Return what has to come before a pod is admitted, empty when nothing has."""
    if state.record.recalled is None:
        problem = f": {state.record.problem}" if state.record.problem else ""
        return f"to be admitted, for which the ledger (what was admitted before{problem}) has to answer"
    if not state.described:
        return "to be admitted, for which the container runtime (which it is) has to answer"
    entry = state.pods.get(uid)
    if entry is None:
        return "to be admitted"
    if entry.verdict is not None and not entry.kept:
        return "its admission to be written to the ledger"
    return entry.waits

"""The kubeconfig that a bootstrap leaves: the cluster of the bootstrap's own, and the certificate that is in use."""

import base64
import json
import posixpath

from runtime.drivers.kubeconfig.folder import opened, write_file
from runtime.net.kubeaccess import Access

CLUSTER, USER, CONTEXT = "default-cluster", "default-auth", "default-context"
"""Names of the entries, as a kubelet gives them."""
FOLDER_MODE = 0o755


def kubeconfig_text(bootstrap: Access, current: str) -> str:
    """Return a kubeconfig for the cluster of `bootstrap`; certificate and key are in the file `current`."""
    return f"""apiVersion: v1
kind: Config
clusters:
- name: {CLUSTER}
  cluster:
{_cluster_fields(bootstrap)}
users:
- name: {USER}
  user:
    client-certificate: {json.dumps(current)}
    client-key: {json.dumps(current)}
contexts:
- name: {CONTEXT}
  context:
    cluster: {CLUSTER}
    namespace: default
    user: {USER}
current-context: {CONTEXT}
"""


def _cluster_fields(bootstrap: Access) -> str:
    # Text in JSON is text in YAML, whatever characters a path or URL has.
    fields = [f"server: {json.dumps(bootstrap.server)}"]
    if bootstrap.ca_file:
        fields.append(f"certificate-authority: {json.dumps(bootstrap.ca_file)}")
    elif bootstrap.ca:
        fields.append(f"certificate-authority-data: {base64.b64encode(bootstrap.ca).decode()}")
    if bootstrap.insecure:
        fields.append("insecure-skip-tls-verify: true")
    if bootstrap.server_name:
        fields.append(f"tls-server-name: {json.dumps(bootstrap.server_name)}")
    return "\n".join(f"    {field}" for field in fields)


def write_kubeconfig(path: str, bootstrap: Access, current: str) -> None:
    """Write the kubeconfig, mode 0600, as a whole. Raises an `OperatingError`."""
    with opened(posixpath.dirname(path), FOLDER_MODE) as folder:
        name = posixpath.basename(path)
        write_file(folder, name, kubeconfig_text(bootstrap, current).encode(), f".{name}.new")

"""Bootstrap tokens, and the approver and signer of client certificates, which a controller manager is in a whole cluster."""

import base64
import contextlib

from kubernetes.client import ApiException

from api.ports.kube import ObjectPath

REQUESTS = ObjectPath(api_version="certificates.k8s.io/v1", plural="certificatesigningrequests")
BINDINGS = ObjectPath(api_version="rbac.authorization.k8s.io/v1", plural="clusterrolebindings")
SECRETS = ObjectPath(plural="secrets", namespace="kube-system")
TOKEN_ID, TOKEN_SECRET = "abcdef", "0123456789abcdef"
TOKEN = f"{TOKEN_ID}.{TOKEN_SECRET}"


def request_path(name, subresource=""):
    """Return the path of one request."""
    return ObjectPath(
        api_version=REQUESTS.api_version, plural=REQUESTS.plural, name=name, subresource=subresource
    )


class ClusterSigner:
    """Decides on CertificateSigningRequests as an administrator, with the authority of the cluster."""

    def __init__(self, admin, authority):
        self.admin, self.authority = admin, authority

    def accept_bootstrap_tokens(self):
        """Make the bootstrap token, and let its group ask for certificates."""
        fields = {
            "token-id": TOKEN_ID,
            "token-secret": TOKEN_SECRET,
            "usage-bootstrap-authentication": "true",
        }
        data = {name: base64.b64encode(value.encode()).decode() for name, value in fields.items()}
        secret = {
            "metadata": {"name": f"bootstrap-token-{TOKEN_ID}"},
            "type": "bootstrap.kubernetes.io/token",
            "data": data,
        }
        group = {
            "kind": "Group",
            "name": "system:bootstrappers",
            "apiGroup": "rbac.authorization.k8s.io",
        }
        binding = {
            "metadata": {"name": "node-bootstrappers"},
            "roleRef": {
                "kind": "ClusterRole",
                "name": "system:node-bootstrapper",
                "apiGroup": "rbac.authorization.k8s.io",
            },
            "subjects": [group],
        }
        for path, body in ((SECRETS, secret), (BINDINGS, binding)):
            with contextlib.suppress(ApiException):
                self.admin.create(path, body)

    def waiting(self):
        """Return the requests that nobody has decided on, the oldest first."""
        found = self.admin.read(REQUESTS)["items"]
        return [one for one in found if not one.get("status", {}).get("conditions")]

    def decide(self, name, condition="Approved", message="by a test"):
        """Approve or deny a request."""
        one = self.admin.read(request_path(name))
        entry = {"type": condition, "status": "True", "reason": "Test", "message": message}
        one["status"] = {"conditions": [entry]}
        self.admin.replace(request_path(name, "approval"), one)

    def issue(self, name, life_s, **options):
        """Sign a request that is approved; return the certificate."""
        one = self.admin.read(request_path(name))
        certificate = self.authority.sign(base64.b64decode(one["spec"]["request"]), life_s, **options)
        one["status"]["certificate"] = base64.b64encode(certificate).decode()
        self.admin.replace(request_path(name, "status"), one)
        return certificate

    def serve(self, life_s):
        """Approve and sign all that waits; return how many that were."""
        names = [one["metadata"]["name"] for one in self.waiting()]
        for name in names:
            self.decide(name)
            self.issue(name, life_s)
        return len(names)

    def clear(self):
        """Delete all requests."""
        for one in self.admin.read(REQUESTS)["items"]:
            self.admin.delete(request_path(one["metadata"]["name"]))

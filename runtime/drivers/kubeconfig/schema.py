"""The entries of a kubeconfig (v1 Config), as far as they matter to a node; absent and null are the same."""

import msgspec


class ClusterEntry(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """How a server is reached."""

    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None
    extensions: tuple[dict[str, object], ...] | None = None


class PluginVariable(msgspec.Struct, frozen=True, kw_only=True):
    """A variable of an exec plugin's environment; its value may be a secret."""

    name: str
    value: str = ""

    def __repr__(self) -> str:
        return f"PluginVariable({self.name})"


class PluginEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A program that prints a credential."""

    api_version: str | None = None
    command: str | None = None
    args: tuple[str, ...] | None = None
    env: tuple[PluginVariable, ...] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool | None = None
    interactive_mode: str | None = None


class UserEntry(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Who we are. Fields from `username` on are refused: ignoring them would make us somebody else."""

    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    exec: PluginEntry | None = None
    username: object = None
    password: object = None
    auth_provider: object = None
    impersonate: object = msgspec.field(default=None, name="as")
    impersonate_uid: object = msgspec.field(default=None, name="as-uid")
    impersonate_groups: object = msgspec.field(default=None, name="as-groups")
    impersonate_extra: object = msgspec.field(default=None, name="as-user-extra")

    def __repr__(self) -> str:
        return "UserEntry()"


class ContextEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Which user on which cluster."""

    cluster: str | None = None
    user: str | None = None


class NamedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """An item of ``clusters``."""

    name: str
    cluster: ClusterEntry | None = None


class NamedUser(msgspec.Struct, frozen=True, kw_only=True):
    """An item of ``users``."""

    name: str
    user: UserEntry | None = None


class NamedContext(msgspec.Struct, frozen=True, kw_only=True):
    """An item of ``contexts``."""

    name: str
    context: ContextEntry | None = None


class KubeConfig(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A whole file."""

    current_context: str | None = None
    clusters: tuple[NamedCluster, ...] | None = None
    users: tuple[NamedUser, ...] | None = None
    contexts: tuple[NamedContext, ...] | None = None

"""CertificateManager: knows the node's client certificate, and has it renewed before it expires."""

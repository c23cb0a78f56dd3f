"""Finds out what a kubeconfig comes to, in a child process that is gone afterwards: the client library is big."""

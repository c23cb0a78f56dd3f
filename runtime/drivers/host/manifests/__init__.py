"""The port `manifests`: a folder or file of manifests, how it is read, and the stream of its changes."""

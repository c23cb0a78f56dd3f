"""One module a port: the calls that it takes, what they return, and the rules that every driver keeps."""

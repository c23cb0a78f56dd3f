"""The parts of `actors.pod.containerconfig`: how a v1 Pod becomes what a container runtime is asked for."""

"""The parts of `actors.pod.spec.containerconfig`: how a v1 Pod becomes what a container runtime is asked for."""

"""PodSupervisor: the desired set, pod actors, static names, orphans."""

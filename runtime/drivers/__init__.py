"""Drivers: the ports of `api.ports` on the real world, one package per world."""

"""Drivers: the ports of `api.ports.port` on the real world, one package per world."""

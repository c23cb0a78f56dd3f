"""Who decides: one package per actor, a pure core and a thin actor, composed in `assembly`."""

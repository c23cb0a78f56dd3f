"""The life of one pod, from its first update to nothing left of it: one actor per UID."""

"""The life of one pod, from its first update to its removal: one actor per UID."""

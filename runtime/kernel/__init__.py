"""The actor kernel: cells and incarnations on pykka, mailboxes, supervision, two executors."""

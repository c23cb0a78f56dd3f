"""What outlives the agent: the nursery that forks keepers, and the keeper that holds one pod's processes.

Only the standard library's smallest modules are imported here, all of them at the start: every keeper shares those
pages with its siblings, and an upgrade may replace the files while keepers run. That is also why they do not import
`typing` when they run: it is the largest of all, and only the type checker needs it.
"""

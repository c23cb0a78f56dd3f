"""The part that outlives the agent: the keeper server, which forks keepers, and the keeper of one pod's processes.

Only the standard library's smallest modules are imported here, all of them at the start: every keeper shares those
pages with its siblings, and an upgrade may replace the files while keepers run. That is also why they do not import
`typing` when they run: it is the largest of all, and only the type checker needs it.
"""

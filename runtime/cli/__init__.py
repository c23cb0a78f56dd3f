"""The verbs that talk to a running agent.

`runtime.cli.command` is what the composition root uses: `add_verbs` and `run_verb`.
"""

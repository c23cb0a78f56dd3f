"""A golden pair in one YAML file: what goes in, then ``expect``, what comes out."""

import yaml

SPLIT = "\nexpect:\n"


def hold(path, outcome_of, *, update):
    """See that what comes out of a pair is what it expects, or with `update` write that; of what it names only."""
    text = path.read_text()
    pair = yaml.safe_load(text)
    assert pair["rule"], "a pair names the rule that it is written from"
    found = outcome_of(pair)
    if update:
        head, _, _ = text.partition(SPLIT)
        body = yaml.safe_dump(found, sort_keys=False, width=110)
        path.write_text(head + SPLIT + "".join(f"  {line}\n" for line in body.splitlines()))
        return
    assert {key: found.get(key) for key in pair["expect"]} == pair["expect"]

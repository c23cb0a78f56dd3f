"""Made from ../proto by `python -m tests.tidy.wire`; not for editing."""

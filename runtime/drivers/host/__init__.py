"""The machine itself: files, the ledger, and the documents that people write."""

"""What is trained: a transformer, its text and optimizer, number formats, the ledger of its memory, checkpoints."""

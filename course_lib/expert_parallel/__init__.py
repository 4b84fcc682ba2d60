"""Expert parallelism: a router sends each token to a few of many experts, which lie on several ranks."""

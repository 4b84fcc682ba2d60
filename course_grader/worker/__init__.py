"""What runs answers: the protocol, the pool of workers, the server that forks them, and the worker's own side."""

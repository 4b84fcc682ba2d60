"""A model served over HTTP: the server, its client, and the forecast of a measured load."""

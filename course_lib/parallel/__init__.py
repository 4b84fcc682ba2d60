"""Splitting a training step over ranks: data, sharded, tensor, pipeline, context and expert parallelism, and meshes of
them."""

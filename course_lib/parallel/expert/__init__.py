"""Expert parallelism: a router sends each token to a few of many experts, which lie on several ranks.

Read `routing`, then `experts` (one process), `exchange` (several), `dropping` and `balance`, `gradients` for what
changes after the backward pass, and `costs` for the bytes. `layer`, `model` and `training` put them together; `tensor`
and `nodes` are alternatives. `costs` is arithmetic and loads no torch; names are loaded when they are first used.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(
    __name__,
    {
        "balance": ("balance_loss", "update_bias", "z_loss"),
        "costs": (
            "MoEShape",
            "capacity",
            "drop_share",
            "even_bytes",
            "exchange_bytes",
            "expected_nodes",
            "imbalance",
            "layer_bytes",
            "placement",
            "tensor_bytes",
        ),
        "expert_capacity": ("keep",),
        "exchange": ("all_to_all", "combine", "dispatch"),
        "experts": ("Experts", "dense_mixture", "grouped_mixture"),
        "gradients": ("average_gradients", "expert_groups", "global_norm"),
        "layer": ("Mixture", "MixtureLayer"),
        "model": ("build",),
        "node_limited": ("dispatch_by_node", "network_rows"),
        "routing": ("Routing", "limit_nodes", "route"),
        "training": ("Trace", "train"),
    },
)

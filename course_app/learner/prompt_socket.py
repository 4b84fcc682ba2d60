"""The wire between JupyterLab's page and its kernels, without the wait for a fuller packet.

A slider's answer is three small messages. By default the operating system holds the second one back until the first is
acknowledged (Nagle's algorithm), and the browser's side acknowledges up to 40 ms late: a fixed wait, longer than
drawing the picture. `jupyter/jupyter_server_config.json` names this class for `./course learn`.
"""

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection


class PromptConnection(ZMQChannelsWebsocketConnection):
    """Jupyter's own connection, each of whose messages leaves at once."""

    async def connect(self) -> None:  # type: ignore[override]  # a coroutine in its base class, as its caller expects
        """Connect as usual, with TCP_NODELAY set on the page's socket."""
        self.websocket_handler.set_nodelay(True)
        if (started := super().connect()) is not None:
            await started

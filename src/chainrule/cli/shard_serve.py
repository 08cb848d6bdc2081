"""chainrule shard-serve FOLDER: answers look-ups in some shards of an n-gram model."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.shared.arguments import ModelPath, WholeNumber
from chainrule.cli.shared.screen import note


def shard_serve(
    model: ModelPath,
    /,
    *,
    shards: Annotated[
        tuple[int, ...],
        WholeNumber,
        Parameter(
            help="The numbers of the shards to serve, from 0; by default all.", consume_multiple=True, negative=()
        ),
    ] = (),
    host: Annotated[
        str, Parameter(help="The address to listen on. There is no key: let only machines that you trust reach it.")
    ] = "127.0.0.1",
    port: Annotated[int, WholeNumber, Parameter(help="The port to listen on; 0 chooses a free one.")] = 9000,
) -> None:
    """Serve shards of an n-gram model to programs that look up batches of n-grams.

        $ chainrule shard-serve big/ --shards 0 1 --port 9000

    big/ is what `chainrule convert lm/ big/ --shards 4` makes. Several
    processes, on one machine or more, each serve some of the shards;
    chainrule.ShardClient asks all of them, one request a batch. Ctrl-C stops.
    """
    from chainrule.api.opening import open_shards
    from chainrule.cli.serve import check_port
    from chainrule.errors import SettingError
    from chainrule.serving.shard_server import ShardServer

    check_port(port)
    edges, tables = open_shards(model, shards)
    try:
        server = ShardServer(tables, edges, host, port)
    except OSError as error:
        raise SettingError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error
    with server:
        address, actual = str(server.server_address[0]), server.server_address[1]
        numbers = " ".join(map(str, tables))
        print(f"serving shards {numbers} of {len(edges) - 1} on {address}:{actual}; Ctrl-C stops", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            note("stopped")

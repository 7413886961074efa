"""Private parts of redis-py that this package uses: a release that drops one fails here."""

import inspect

import pytest
from reasoning_replay.adapters.runtime.resolver import Resolver
from reasoning_replay.adapters.stores.redis.connections import SentinelPool, Tcp, cluster_client
from redis.asyncio import BlockingConnectionPool, Connection, Redis, RedisCluster, SSLConnection
from redis.asyncio.cluster import ClusterNode, NodesManager, PipelineCommand
from redis.asyncio.connection import AbstractConnection, RedisSSLContext
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.maint_notifications import MaintNotificationsConfig

SETTINGS = {
    "connection_class": Tcp,
    "max_connections": 3,
    "client_name": "rr",
    "protocol": 2,
    "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    "resolver": Resolver(),
}

# (owner, name of the method, its parameters)
METHODS = [
    (AbstractConnection, "connect_check_health", ["check_health", "retry_socket_connect"]),
    (AbstractConnection, "disconnect", ["nowait"]),
    (AbstractConnection, "pack_commands", ["commands"]),
    (AbstractConnection, "send_packed_command", ["command"]),
    (AbstractConnection, "read_response", []),
    (Retry, "call_with_retry", ["do", "fail"]),
    (BlockingConnectionPool, "get_connection", []),
    (BlockingConnectionPool, "release", ["connection"]),
    (SSLConnection, "_connection_arguments", []),
    (RedisSSLContext, "get", []),
    (SentinelConnectionPool, "get_master_address", []),
    (NodesManager, "initialize", []),
    (NodesManager, "move_slot", ["e"]),
    (ClusterNode, "execute_command", ["args"]),
    (ClusterNode, "disconnect_free_connections", []),
    (ClusterNode, "execute_pipeline", ["commands"]),
    (PipelineCommand, "__init__", ["position", "args"]),
    (RedisCluster, "initialize", []),
    (RedisCluster, "get_node_from_key", ["key"]),
    (RedisCluster, "get_primaries", []),
]


@pytest.mark.parametrize(("owner", "name", "parameters"), METHODS)
def test_a_method_exists(owner: type, name: str, parameters: list[str]) -> None:
    """Each method has the parameters that it is called with, in this order."""
    found = list(inspect.signature(getattr(owner, name)).parameters)
    assert found[1 : 1 + len(parameters)] == parameters


def test_connections_have_the_attributes_that_are_read() -> None:
    """A connection has a writer, and one over TLS has a context and uses the overridden method."""
    assert Connection()._writer is None
    assert SSLConnection().ssl_context.context is None
    assert "self._connection_arguments()" in inspect.getsource(Connection._connect)
    assert Connection(host="a", port=1)._connection_arguments() == {"host": "a", "port": 1}
    assert hasattr(Connection(), "socket_connect_timeout")


def test_a_sentinel_pool_can_wait() -> None:
    """The pool accepts another base class, and any manager that discovers a master."""
    pool = SentinelPool("service", None)  # type: ignore[no-untyped-call]
    assert isinstance(Redis(connection_pool=pool).connection_pool, BlockingConnectionPool)
    assert "self.sentinel_manager.discover_master(" in inspect.getsource(
        SentinelConnectionPool.get_master_address
    )


def test_nodes_of_a_cluster_use_the_given_settings() -> None:
    """The settings of connections reach the start nodes and the nodes that are found later."""
    cluster = cluster_client([("127.0.0.1", 1)], SETTINGS)
    nodes = cluster.nodes_manager
    (node,) = nodes.startup_nodes.values()
    assert isinstance(node.acquire_connection(), Tcp)
    assert node.max_connections == 3
    assert nodes.connection_kwargs is cluster.connection_kwargs
    assert "ClusterNode(\n" in inspect.getsource(NodesManager.initialize)
    assert "**self.connection_kwargs" in inspect.getsource(NodesManager.initialize)
    assert nodes.slots_cache == {}
    assert PipelineCommand(0, "PING").result is None

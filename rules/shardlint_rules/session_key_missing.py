"""A policy that sticks to sessions has no key to tell them by.

A hash needs something to hash. Envoy's ring hash and Maglev take the key from the route's
`hash_policy`, and choose a host at random where it has none; the production stack's `session` needs
the name of the header that carries the session, `sessionKey`.

```yaml fails
static_resources:
  clusters:
  - name: llm
    type: STRICT_DNS
    lb_policy: RING_HASH  # session-key-missing
    load_assignment:
      cluster_name: llm
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: vllm-0, port_value: 8000}}}
        - endpoint: {address: {socket_address: {address: vllm-1, port_value: 8000}}}
  listeners:
  - name: main
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: /}
                route:
                  cluster: llm
```

```yaml passes
static_resources:
  clusters:
  - name: llm
    type: STRICT_DNS
    lb_policy: RING_HASH
    load_assignment:
      cluster_name: llm
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: vllm-0, port_value: 8000}}}
        - endpoint: {address: {socket_address: {address: vllm-1, port_value: 8000}}}
  listeners:
  - name: main
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: /}
                route:
                  cluster: llm
                  hash_policy: [{header: {header_name: x-session-id}}]
```

Fix: name the header that your clients send with every request of a session.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, RouterWorld, Rule, told


class SessionKeyMissing(Rule):
    id, name = "SL511", "session-key-missing"
    fix = "unsafe"
    severity = "warning"
    scope = "router"

    def check_routing(self, world: RouterWorld) -> Iterator[Found]:
        yield from told(world.router, "session-key", "session_key", None)

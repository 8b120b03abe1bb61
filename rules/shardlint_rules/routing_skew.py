"""Something in the router makes one replica take far more than its part.

- A Service with `sessionAffinity: ClientIP` behind an Ingress that is told to send to the Service
  (`service-upstream`): all requests come from the address of the proxy, and go to the one replica
  that this address maps to.
- nginx with a long `fail_timeout`: a server that failed `max_fails` times gets nothing for all of
  that time, and the others do its work.
- nginx with `least_conn` and several workers without a `zone`: each worker counts only its own
  connections, so that all of them may choose the same server.

```nginx fails
worker_processes 8;
events {}
http {
    upstream llm {
        least_conn;  # routing-skew
        server node01:8000;
        server node02:8000;
    }
    server {
        listen 9000;
        location / { proxy_pass http://llm; }
    }
}
```

```nginx passes
worker_processes 8;
events {}
http {
    upstream llm {
        zone llm 64k;
        least_conn;
        server node01:8000;
        server node02:8000;
    }
    server {
        listen 9000;
        location / { proxy_pass http://llm; }
    }
}
```

Fix: a hash of a session header where the client's address is not seen; a `fail_timeout` of some
seconds; `zone NAME 64k;` in the upstream.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, RouterWorld, Rule, told


class RoutingSkew(Rule):
    id, name = "SL507", "routing-skew"
    fix = "unsafe"
    severity = "warning"
    scope = "router"

    def check_routing(self, world: RouterWorld) -> Iterator[Found]:
        yield from told(world.router, "skew", "skew", None)

"""Control of a cluster over HTTP: a JSON API on the methods of `mockbroker.Cluster` (docs/control.md).

`operations` declares an operation, `routes` lists all, `app` serves them and `openapi` describes them. `resources` has
their functions and `models` their bodies, by subject. `access` checks who may call, `problems` has the errors, `events`
the stream of events, and `control_server` runs all of it in a thread of its own.
"""

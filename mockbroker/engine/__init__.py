"""Requests from frame to handler and back: core, dispatch, routes, purgatory."""

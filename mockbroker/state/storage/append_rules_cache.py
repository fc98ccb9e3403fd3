"""`AppendRulesCache`: the append rules of one topic, read again after each configuration change."""

from __future__ import annotations

from collections.abc import Callable

from mockbroker.state.storage.log_config import AppendRules, TopicConfigs


class AppendRulesCache:
    """The rules of one topic. changed: called when they have been read again.

    node_id: the broker whose settings apply; None without one. It changes by `move_to`.
    """

    def __init__(
        self, configs: TopicConfigs, topic_name: str, node_id: int | None, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._configs = configs
        self._on_change = changed
        self._node_id = node_id
        self._topic_name = topic_name
        self._generation = -1
        self._rules: AppendRules | None = None

    def move_to(self, node_id: int | None) -> None:
        """The log is led by this broker now, or by none."""
        if node_id != self._node_id:
            self._node_id, self._rules = node_id, None

    def current_rules(self) -> AppendRules:
        """The rules that hold now."""
        if self._rules is None or self._generation != self._configs.generation:
            config = self._configs.topic(self._topic_name, self._node_id)
            self._rules = AppendRules.from_config(config, self._configs.batch_limits)
            self._generation = self._configs.generation
            self._on_change()
        return self._rules

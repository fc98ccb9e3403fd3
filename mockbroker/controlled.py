"""`Controlled`: a cluster or a proxy with a control over HTTP, of which nothing is loaded if there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from mockbroker.cluster_methods.methods import SharedMethods

if TYPE_CHECKING:
    from mockbroker.control.deferred_control import DeferredControl
    from mockbroker.control.operations import ControlApi
    from mockbroker.control.options import ControlOptions
    from mockbroker.server_options import Options


class Controlled(SharedMethods):
    """Starts and stops the control with the server. load_api: imports what is served, on first use."""

    def __init__(self, options: Options, control: ControlOptions | None, load_api: Callable[[], ControlApi]) -> None:
        super().__init__(options)
        self._control_options = control
        self._load_api = load_api
        self._control: DeferredControl | None = None

    def start(self) -> Self:
        """Start; every listener, and the control if there is one, accepts connections when this returns."""
        if self._control_options is None:
            return super().start()
        from mockbroker.control.deferred_control import DeferredControl

        control = DeferredControl(self, self._load_api, self._control_options)
        super().start()
        try:
            control.start()
        except BaseException:
            super().stop()
            raise
        self._control = control
        return self

    def stop(self) -> None:
        """Close every connection and end the thread; does nothing if it is not running."""
        control, self._control = self._control, None
        try:
            if control is not None:
                control.stop(self._begin_stop())
        finally:
            super().stop()

    @property
    def control_url(self) -> str:
        """The base of the paths of the control over HTTP, "http://127.0.0.1:9090". Raises: RuntimeError without it."""
        if self._control is None:
            raise RuntimeError("there is no control over HTTP, or it does not run: start it with control=0")
        return self._control.url

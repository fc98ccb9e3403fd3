"""What goes wrong with a driver or with its client."""

from __future__ import annotations

from mockbroker.certify.driver.messages import ErrorInfo


class DriverFailure(Exception):
    """The driver broke the protocol, ended, or did not answer: not an error of the client under test.

    output: the last lines that it wrote to stderr.
    """

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output

    def describe(self) -> str:
        """The message with the driver's last output."""
        return f"{self}\n  last output of the driver:\n{self.output}" if self.output else str(self)


class ClientError(Exception):
    """The client reported an error. method: of the driver protocol; info: the error as the driver sent it."""

    def __init__(self, method: str, info: ErrorInfo) -> None:
        super().__init__(f"{method}: {info}")
        self.method = method
        self.info = info

    @property
    def name(self) -> str:
        """Kafka's name of the error, or one of the protocol (LOCAL_...)."""
        return self.info.name

    @property
    def fatal(self) -> bool | None:
        """Whether the client cannot be used any more; None if it does not say."""
        return self.info.fatal

    @property
    def retriable(self) -> bool | None:
        """Whether the application may try again; None if the client does not say."""
        return self.info.retriable

    @property
    def abortable(self) -> bool | None:
        """Whether the transaction must be aborted; None if the client does not say."""
        return self.info.abortable

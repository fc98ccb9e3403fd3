"""`open_series`: the reader of a series of captures, by level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.rows.levels import TRAFFIC_LEVELS
from kwire.capture.series.exchange_series import ExchangeSeries
from kwire.capture.series.traffic_series import TrafficSeries

if TYPE_CHECKING:
    from kwire.capture.options import Options
    from kwire.capture.series.series_reader import SeriesReader
    from kwire.capture.tls.key_log import KeyLog


def open_series(level: str, options: Options, keys: KeyLog) -> SeriesReader:
    """A reader of which no file was read yet. Args: keys: the secrets of TLS connections."""
    if level in TRAFFIC_LEVELS:
        return TrafficSeries(level, options, keys)
    return ExchangeSeries(level, options, keys)

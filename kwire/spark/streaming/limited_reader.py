"""`LimitedStreamReader`: the reader with limits of batches and the trigger `availableNow`, for Spark 4.2 and newer."""

from __future__ import annotations

from pyspark.sql.streaming import datasource

from kwire.spark.streaming.stream_reader import CaptureStreamReader


class LimitedStreamReader(CaptureStreamReader, datasource.SupportsTriggerAvailableNow):
    """A batch has new files up to a limit."""

    def getDefaultReadLimit(self) -> datasource.ReadLimit:  # noqa: N802  Spark's names, here and below.
        """The limit of `maxFilesPerTrigger` or `maxBytesPerTrigger`."""
        if self.stream_options.files_max is not None:
            return datasource.ReadMaxFiles(self.stream_options.files_max)
        if self.stream_options.bytes_max is not None:
            return datasource.ReadMaxBytes(self.stream_options.bytes_max)
        return datasource.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Restrict this run to the files that are finished now."""
        self.restrict_to_finished()

"""Methods of `Cluster` for faults; the modules of faults are imported on first use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mockbroker.cluster_methods.cluster_thread import ClusterThread

if TYPE_CHECKING:
    from mockbroker.faults.cluster_model import ClusterFault
    from mockbroker.faults.control import Chaos, Faults
    from mockbroker.faults.model import Fault

    #: Faults, each as a value or in its JSON form, or the path of a JSON file with them.
    FaultSource = Iterable[Fault | ClusterFault | Mapping[str, object]] | str | Path


class FaultMethods(ClusterThread):
    """The faults of a cluster."""

    @property
    def faults(self) -> Faults:
        """The faults of the cluster, to add, list and remove (docs/faults.md); their hits also after it has stopped."""
        from mockbroker.faults.control import Faults

        server = self._started()
        if self._thread is None:
            return Faults(lambda action: action(server.faults))
        return Faults(lambda action: self.run(lambda server: action(server.faults)))

    def chaos(self, profile: str, *, seed: int | None = None) -> Chaos:
        """Disturb the cluster by a named profile until the returned object is stopped (docs/faults.md).

        The seed is printed, so that a test that fails can be repeated with it. Raises: FaultError for an unknown
        profile.
        """
        chaos = self.faults.start_chaos(profile, seed)
        print(f"chaos {profile!r}, seed {chaos.seed}")
        return chaos

    @property
    def has_faults(self) -> bool:
        """Whether faults were ever added; without, their modules are not imported."""
        return self._started().has_faults

    def check_faults(self) -> None:
        """Check that every fault has acted, except optional ones; the fixture `kafka` does so at the end of a test.

        Raises: AssertionError that names the faults, and the requests that came nearest.
        """
        if self._started().has_faults:
            self.faults.check_hits()


def load_faults(source: FaultSource) -> tuple[Fault | ClusterFault, ...]:
    """The checked faults of a list or of a JSON file. Raises: FaultError for a wrong one, OSError."""
    if not source:
        return ()
    from mockbroker.faults import control

    return control.load_faults(source)

"""What an edition of KIP-932 decides about share groups, as one frozen value.

State machines and handlers read its fields and never an edition's name; the values are in `mockbroker/editions`.
"""

from __future__ import annotations

import msgspec

#: The edition that everything means unless told otherwise.
RELEASED_EDITION = "4.3"


class ShareRules(msgspec.Struct, frozen=True):
    """The defaults are those of Apache Kafka 4.3.0; every other edition says only what it does otherwise.

    joining_bumps: how often a member that joins raises the group epoch, from 0 for a new group; 4.3.0 raises it for
    the member and once more for the metadata of what it subscribes to.
    """

    joining_bumps: int = 2


#: As Apache Kafka 4.3.0 does it.
RELEASED = ShareRules()

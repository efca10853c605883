"""Connection options of a broker for both clients: librdkafka (offsets) and Spark's source (messages).

The password comes from a setting and goes only into the options of one read: no file, ledger, log or command line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True)
class Access:
    """Servers and credentials. `authority` is a file of PEM certificates; None: the system's certificates."""

    servers: str
    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism = "SCRAM-SHA-512"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    authority: Path | None = None

    @property
    def _signs_in(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def _encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    def for_librdkafka(self) -> dict[str, str]:
        """The client's configuration."""
        options = {"bootstrap.servers": self.servers, "security.protocol": self.protocol}
        if self._encrypted and self.authority is not None:
            options["ssl.ca.location"] = str(self.authority)
        if self._signs_in:
            options |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username or "",
                "sasl.password": self.password or "",
            }
        return options

    def for_spark(self) -> dict[str, str]:
        """Options of a read."""
        options = {"bootstrap.servers": self.servers, "security.protocol": self.protocol}
        if self._encrypted and self.authority is not None:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        if self._signs_in:
            who = f"username={_quoted(self.username or '')} password={_quoted(self.password or '')}"
            options |= {
                "sasl.mechanism": self.mechanism,
                "sasl.jaas.config": f"{_LOGIN[self.mechanism]} required {who};",
            }
        return {f"kafka.{name}": value for name, value in options.items()}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

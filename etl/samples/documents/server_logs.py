"""A company's server log, in the style of the paper's figure 1: logins and file accesses, kinds with their own fields.

    kind            share   fields beside `time`
    login             30 %  User IP Host Session Server Severity:"Info" MsgId:1
    failed login      18 %  User IP (Host) Severity MsgId:2 Reason Attempt
    file access       40 %  User Host Session File Access (Share)
    denied access      9 %  User Host File Severity:"Err." MsgId:7
    system             3 %  Host IP Severity:"Crit." MsgId Service                  nobody is logged in: no User

A user has a workstation with an address and sometimes works elsewhere; sessions and files keep appearing, so every
window brings pairs that none before it had. Joins answer questions nobody declared: failed logins and file accesses
of the same user, host or address; what else happened in a session; who used a host that raised an alarm.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import orjson

_KINDS = ("login", "failed", "file", "denied", "system")
_SHARES = (0.30, 0.18, 0.40, 0.09, 0.03)
_REASONS = ("password", "expired", "locked", "unknown device")
_ACCESS = ("read", "write", "delete")
_SERVICES = ("dns", "mail", "backup", "print")
Fields = dict[str, object]


def server_logs(
    count: int, *, seed: int, users: int | None = None, start_s: int = 1_700_000_000, rate_per_s: float = 100.0
) -> Iterator[bytes]:
    """Lines of JSON in the order of their time. One user per 150 documents unless told otherwise."""
    people = max(20, count // 150) if users is None else users
    draw = np.random.default_rng(seed)
    kinds = draw.choice(len(_KINDS), count, p=_SHARES)
    who = np.minimum((people * draw.random(count) ** 1.3).astype(np.int64), people - 1)  # some work more than others
    chance = draw.random((count, 3))
    numbers = draw.integers(0, 2**31, (count, 2))
    session_of = [0] * people
    for index in range(count):
        user, kind = int(who[index]), _KINDS[kinds[index]]
        if kind == "login":
            session_of[user] += 1
        time_ms = int((start_s + index / rate_per_s) * 1000)
        fields = _event(kind, user, session_of[user], chance[index].tolist(), numbers[index].tolist(), people)
        yield orjson.dumps({"time": time_ms, **fields})


def _event(kind: str, user: int, session: int, chance: list[float], number: list[int], people: int) -> Fields:
    place = user if chance[0] < 0.85 else number[0] % people  # at another one's desk
    name, host, address = f"u{user:05d}", f"ws{place:05d}", _address(place)
    ticket = f"{user:x}-{session:x}"
    if kind == "login":
        return {"User": name, "IP": address, "Host": host, "Session": ticket, "Server": f"srv{user % 5}",
                "Severity": "Info", "MsgId": 1}  # fmt: skip
    if kind == "failed":
        severity = "Err." if chance[1] < 0.3 else "Warn."
        failed: Fields = {"User": name, "IP": address, "Severity": severity, "MsgId": 2, "Attempt": number[1] % 5 + 1}
        failed["Reason"] = _REASONS[number[0] % len(_REASONS)]
        return failed | ({"Host": host} if chance[2] < 0.5 else {})
    file = f"/data/{user % 97}/{number[1] % 40_000:x}"
    if kind == "file":
        opened: Fields = {"User": name, "Host": host, "Session": ticket, "File": file, "Access": _ACCESS[number[0] % 3]}
        return opened | ({"Share": f"s{user % 20}"} if chance[1] < 0.5 else {})
    if kind == "denied":
        return {"User": name, "Host": host, "File": file, "Severity": "Err.", "MsgId": 7}
    return {"Host": host, "IP": address, "Severity": "Crit.", "MsgId": 100 + number[0] % 30,
            "Service": _SERVICES[number[1] % len(_SERVICES)]}  # fmt: skip


def _address(place: int) -> str:
    return f"10.2.{place // 250}.{place % 250 + 1}"

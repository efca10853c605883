"""From a decision to the published tables.

dimensions   follow the masters, before the facts
copying      rows on their way into the mart, beside the audit
publishing   audit, Delta logs, then mart and ledger in one transaction
"""

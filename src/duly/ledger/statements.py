"""The names of the ledger's statements: one ``.sql`` file each, in every store."""

from __future__ import annotations

CLAIMS_INSERT = "claims_insert"
CLAIMS_MARK = "claims_mark"
CLAIMS_PRUNE = "claims_prune"
CLAIMS_READ = "claims_read"
CLAIMS_RELEASE = "claims_release"
CLAIMS_RENEW = "claims_renew"
CLAIMS_RESULT = "claims_result"
CLAIMS_RETAKE = "claims_retake"
# The claim behind a key that leads to a row: see insert_if_new.py.
KEYS_READ = "keys_read"
VERSIONS_ADVANCE = "versions_advance"
VERSIONS_READ = "versions_read"

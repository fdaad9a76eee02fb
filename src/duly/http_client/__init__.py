"""HTTP clients of jobs and of the relay, behind the egress guard. Needs the extra ``http``."""

"""GitHub: the body follows from the event.

Fields as in https://docs.github.com/en/webhooks/webhook-events-and-payloads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.core.json_bytes import Json
    from duly.testing.sender.samples.seeds import Seed

    Object = dict[str, Json]

SITE, API = "https://github.com", "https://api.github.com"
OWNER, NAME, BRANCH = "shop-example", "shop", "main"
FULL_NAME = f"{OWNER}/{NAME}"


def make_body(type: str, seed: Seed) -> Object:
    """The body of an event such as ``issues.opened`` or ``push``."""
    event, dot, action = type.partition(".")
    start: Object = {"action": action} if dot else {}
    make = EVENTS.get(event, other_event)
    return {**start, **make(seed._replace(action=action)), **common_fields(seed)}


def common_fields(seed: Seed) -> Object:
    """What nearly every event has."""
    return {
        "repository": {
            "id": 100000001,
            "name": NAME,
            "full_name": FULL_NAME,
            "private": False,
            "owner": user(OWNER, 100000002, "Organization"),
            "html_url": f"{SITE}/{FULL_NAME}",
            "url": f"{API}/repos/{FULL_NAME}",
            "default_branch": BRANCH,
            "pushed_at": seed.iso,
        },
        "organization": {"login": OWNER, "id": 100000002},
        "sender": user("a-developer", 100000003),
    }


def user(login: str, number: int, type: str = "User") -> Object:
    """A person or an organisation."""
    return {"login": login, "id": number, "html_url": f"{SITE}/{login}", "type": type}


def thread(seed: Seed, path: str, title: str) -> Object:
    """What issues and pull requests have in common."""
    number, closed = seed.number("number", 3), seed.action == "closed"
    return {
        "id": seed.number(path, 10),
        "number": number,
        "title": title,
        "body": "Written by `duly deliver`.",
        "state": "closed" if closed else "open",
        "html_url": f"{SITE}/{FULL_NAME}/{path}/{number}",
        "user": user("a-developer", 100000003),
        "labels": [],
        "assignees": [],
        "created_at": seed.iso,
        "updated_at": seed.iso,
        "closed_at": seed.iso if closed else None,
    }


def pull_request(seed: Seed) -> Object:
    """A change that waits for its review; where it is closed, it was merged."""
    about = thread(seed, "pull", "Mend the till")
    merged = seed.action == "closed"
    about |= {
        "draft": False,
        "merged": merged,
        "merged_at": seed.iso if merged else None,
        "merge_commit_sha": seed.commit("merge") if merged else None,
        "head": {"ref": "mend-the-till", "sha": seed.commit("head")},
        "base": {"ref": BRANCH, "sha": seed.commit("base")},
    }
    return {"number": about["number"], "pull_request": about}


def issue(seed: Seed) -> Object:
    """Something to mend."""
    return {"issue": thread(seed, "issues", "The till is wrong")}


def issue_comment(seed: Seed) -> Object:
    """What was said about it."""
    comment: Object = {
        "id": seed.number("comment", 10),
        "body": "It is mended.",
        "user": user("a-developer", 100000003),
        "created_at": seed.iso,
        "updated_at": seed.iso,
    }
    return {**issue(seed._replace(action="")), "comment": comment}


def push(seed: Seed) -> Object:
    """One commit on the default branch."""
    after = seed.commit("after")
    commit: Object = {
        "id": after,
        "message": "Mend the till",
        "timestamp": seed.iso,
        "url": f"{SITE}/{FULL_NAME}/commit/{after}",
        "author": {"name": "A. Developer", "email": "developer@example.com"},
        "added": [],
        "removed": [],
        "modified": ["till.py"],
    }
    return {
        "ref": f"refs/heads/{BRANCH}",
        "before": seed.commit("before"),
        "after": after,
        "created": False,
        "deleted": False,
        "forced": False,
        "commits": [commit],
        "head_commit": commit,
        "pusher": {"name": "a-developer", "email": "developer@example.com"},
    }


def release(seed: Seed) -> Object:
    """A version that is out."""
    return {
        "release": {
            "id": seed.number("release", 9),
            "tag_name": "v1.0.0",
            "target_commitish": BRANCH,
            "name": "1.0.0",
            "draft": False,
            "prerelease": False,
            "created_at": seed.iso,
            "published_at": seed.iso,
            "author": user("a-developer", 100000003),
        }
    }


def workflow_run(seed: Seed) -> Object:
    """A run of GitHub Actions."""
    done = seed.action == "completed"
    return {
        "workflow_run": {
            "id": seed.number("run", 10),
            "name": "CI",
            "event": "push",
            "status": "completed" if done else "queued",
            "conclusion": "success" if done else None,
            "head_branch": BRANCH,
            "head_sha": seed.commit("head"),
            "run_number": seed.number("run", 3),
            "created_at": seed.iso,
            "updated_at": seed.iso,
        }
    }


def ping(seed: Seed) -> Object:
    """What a new hook is sent first."""
    number = seed.number("hook", 9)
    hook: Object = {"type": "Repository", "id": number, "active": True, "events": ["push"]}
    return {"zen": "Each event takes effect once.", "hook_id": number, "hook": hook}


def other_event(seed: Seed) -> Object:
    """An event that is not among these: what nearly every one has, and a number of its own."""
    return {"id": seed.number("other", 10), "updated_at": seed.iso}


EVENTS: dict[str, Callable[[Seed], Object]] = {
    "issue_comment": issue_comment,
    "issues": issue,
    "ping": ping,
    "pull_request": pull_request,
    "push": push,
    "release": release,
    "workflow_run": workflow_run,
}

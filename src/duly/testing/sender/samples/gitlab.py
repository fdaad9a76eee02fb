"""GitLab: the body follows from the name of the hook.

Fields as in https://docs.gitlab.com/user/project/integrations/webhook_events/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duly.core.json_bytes import Json
    from duly.testing.sender.samples.seeds import Seed

    Object = dict[str, Json]

SITE, PATH = "https://gitlab.com", "shop-example/shop"
# What the body calls the event of a hook.
KINDS = {
    "Issue Hook": "issue",
    "Merge Request Hook": "merge_request",
    "Note Hook": "note",
    "Pipeline Hook": "pipeline",
    "Push Hook": "push",
    "Tag Push Hook": "tag_push",
}
PUSHES = ("push", "tag_push")


def make_body(type: str, seed: Seed) -> Object:
    """The body of an event such as ``Push Hook``."""
    kind = KINDS.get(type, type.removesuffix(" Hook").lower().replace(" ", "_"))
    project: Object = {
        "id": 100000001,
        "name": "shop",
        "path_with_namespace": PATH,
        "web_url": f"{SITE}/{PATH}",
        "default_branch": "main",
    }
    start: Object = {"object_kind": kind, "event_type": kind, "project": project}
    about = push_fields(kind, seed) if kind in PUSHES else attributes(kind, seed)
    return {**start, **about}


def push_fields(kind: str, seed: Seed) -> Object:
    """One commit on the default branch, or a tag."""
    after = seed.commit("after")
    commit: Object = {
        "id": after,
        "message": "Mend the till",
        "timestamp": seed.iso,
        "url": f"{SITE}/{PATH}/-/commit/{after}",
    }
    return {
        "event_name": kind,
        "before": seed.commit("before"),
        "after": after,
        "checkout_sha": after,
        "ref": "refs/tags/v1.0.0" if kind == "tag_push" else "refs/heads/main",
        "user_id": 100000003,
        "user_username": "a-developer",
        "project_id": 100000001,
        "commits": [commit],
        "total_commits_count": 1,
    }


def attributes(kind: str, seed: Seed) -> Object:
    """What an issue, a merge request, a note or a pipeline says of itself."""
    about: Object = {
        "id": seed.number(kind, 9),
        "iid": seed.number("iid", 3),
        "created_at": seed.iso,
        "updated_at": seed.iso,
    }
    more: dict[str, Object] = {
        "issue": {"title": "The till is wrong", "state": "opened", "action": "open"},
        "merge_request": {
            "title": "Mend the till",
            "state": "opened",
            "action": "open",
            "source_branch": "mend-the-till",
            "target_branch": "main",
            "last_commit": {"id": seed.commit("head"), "message": "Mend the till"},
        },
        "note": {"note": "It is mended.", "noteable_type": "Issue", "action": "create"},
        "pipeline": {"ref": "main", "sha": seed.commit("head"), "status": "success"},
    }
    person: Object = {"id": 100000003, "name": "A. Developer", "username": "a-developer"}
    return {"user": person, "object_attributes": {**about, **more.get(kind, {})}}

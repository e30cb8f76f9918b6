"""What the validator of RO-Crates says of one, without a network."""

from pathlib import Path

import requests_cache
from requests_cache import CachedRequest, CachedResponse
from rocrate_validator import services

CONTEXTS = Path(__file__).parents[1] / "data" / "ro-crate"
FILES = {
    "https://w3id.org/ro/crate/1.1/context": "ro-crate-1.1-context.jsonld",
    "https://w3id.org/ro/terms/workflow-run/context": "workflow-run-context.json",
}


def crate_issues(folder: Path, scratch: Path) -> list[str]:
    """Return what a workflow run crate must have and a crate has not."""
    cache = scratch / "contexts"  # which the validator reads
    facts = {"headers": {"Content-Type": "application/ld+json"}, "status_code": 200}
    with requests_cache.CachedSession(str(cache), backend="sqlite") as session:
        for address, name in FILES.items():
            facts |= {"url": address, "request": CachedRequest(method="GET", url=address)}
            content = (CONTEXTS / name).read_bytes()
            session.cache.save_response(CachedResponse(content=content, **facts))
    profile = {"profile_identifier": "workflow-run-crate-0.5", "requirement_severity": "REQUIRED"}
    offline = {"offline": True, "cache_path": cache, "cache_max_age": -1}
    settings = services.ValidationSettings(rocrate_uri=str(folder), **profile, **offline)
    return [issue.message for issue in services.validate(settings).get_issues()]

"""What the validator of RO-Crates says of one, without a network."""

import io
from pathlib import Path

import requests
import requests_cache
import urllib3
from requests.adapters import HTTPAdapter
from rocrate_validator import services

CONTEXTS = Path(__file__).parents[1] / "data" / "ro-crate"
FILES = {
    "https://w3id.org/ro/crate/1.1/context": "ro-crate-1.1-context.jsonld",
    "https://w3id.org/ro/terms/workflow-run/context": "workflow-run-context.json",
}


class StoredContexts(HTTPAdapter):
    """Answers requests for the contexts from files; nothing goes out."""

    def send(self, request: requests.PreparedRequest, *_: object, **__: object):
        body = io.BytesIO((CONTEXTS / FILES[str(request.url)]).read_bytes())
        facts = {"headers": {"Content-Type": "application/ld+json"}, "status": 200}
        raw = urllib3.HTTPResponse(body, preload_content=False, request_url=request.url, **facts)
        return self.build_response(request, raw)


def crate_issues(folder: Path, scratch: Path) -> list[str]:
    """Return what a workflow run crate must have and a crate has not."""
    cache = scratch / "contexts"  # which the validator reads
    with requests_cache.CachedSession(str(cache), backend="sqlite") as session:
        session.mount("https://", StoredContexts())
        for address in FILES:
            session.get(address)
    profile = {"profile_identifier": "workflow-run-crate-0.5", "requirement_severity": "REQUIRED"}
    offline = {"offline": True, "cache_path": cache, "cache_max_age": -1}
    settings = services.ValidationSettings(rocrate_uri=str(folder), **profile, **offline)
    return [issue.message for issue in services.validate(settings).get_issues()]

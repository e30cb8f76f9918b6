"""Who signed a bundle: detached signatures of OpenSSH, by keys that people have and publish."""

import re
import subprocess
from pathlib import Path

from ntk_conditioning.files import require_file
from ntk_workflow.bundle import BundleError

NAMESPACE = "ntk-conditioning"  #: a signature for something else does not count; as in the Makefile

UNSIGNED = "not signed: whoever holds it could have changed it"
UNCHECKED = "a signature is beside it, unchecked: verify it with --signers, or SIGNERS=file to make"


def signature_of(bundle: Path) -> Path:
    """Return where the signature of a bundle is, if it has one."""
    return bundle.with_name(f"{bundle.name}.sig")


def made_by(bundle: Path, signers: Path | None = None) -> str:
    """Return what a bundle's signature says of its maker; see `signer` for what it raises."""
    if signers:
        return f"signed by {signer(bundle, signers)}"
    return UNCHECKED if signature_of(bundle).is_file() else UNSIGNED


def signer(bundle: Path, signers: Path) -> str:
    """Return who signed a bundle and the key's fingerprint, by a file of allowed signers.

    Raises:
        BundleError: if the signature is missing, of other bytes, for something else, expired, or by
            a key that ``signers`` does not have.
    """
    signature = signature_of(bundle)
    for path in (bundle, signers):
        require_file(path)
    if not signature.is_file():
        raise BundleError(f"{bundle}: not signed, there is no {signature}")
    lists = ["-s", str(signature), "-f", str(signers)]
    found = _ssh_keygen("find-principals", *lists)
    if found.returncode or not found.stdout.strip():
        by = f"by none of the keys of {signers}, or by one that has expired"
        raise BundleError(f"{bundle}: {signature} is no signature, or {by}")
    name = found.stdout.splitlines()[0]
    with bundle.open("rb") as stream:
        done = _ssh_keygen("verify", *lists, "-I", name, "-n", NAMESPACE, stdin=stream.fileno())
    if done.returncode:
        reason = (done.stdout + done.stderr).strip().rpartition("\n")[2]
        raise BundleError(f"{bundle}: {signature} is no signature of it by {name} ({reason})")
    key = re.search(r"SHA256:\S+", done.stdout)
    return f"{name} ({key[0]})" if key else name


def _ssh_keygen(
    action: str, *words: str, stdin: int = subprocess.DEVNULL
) -> subprocess.CompletedProcess[str]:
    command = ["ssh-keygen", "-Y", action, *words]
    try:
        return subprocess.run(command, stdin=stdin, capture_output=True, text=True)
    except FileNotFoundError:
        raise BundleError("ssh-keygen is not installed; it is a part of OpenSSH") from None

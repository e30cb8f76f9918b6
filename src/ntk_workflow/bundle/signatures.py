"""Who signed a bundle: detached signatures of OpenSSH, by keys that people have and publish."""

import re
import subprocess
from pathlib import Path

from ntk_conditioning.files import require_file
from ntk_workflow.bundle import BundleError

NAMESPACE = "ntk-conditioning"  #: a signature for something else does not count; as in the Makefile
UNSIGNED = "not signed: whoever holds it could have changed it"
UNCHECKED = "a signature is beside it, unchecked: verify it with --signers, or SIGNERS=file to make"


def made_by(bundle: Path, signers: Path | None = None) -> str:
    """Return what a bundle's signature says of its maker, by a file of allowed signers.

    Raises:
        BundleError: if there are ``signers``, and the signature is missing, of other bytes, for
            something else, expired, or by a key that they do not have.
    """
    signature = bundle.with_name(f"{bundle.name}.sig")
    if not signers:
        return UNCHECKED if signature.is_file() else UNSIGNED
    require_file(signers)
    if not signature.is_file():
        raise BundleError(f"{bundle}: not signed, there is no {signature}")
    command = ["ssh-keygen", "-Y", "find-principals", "-s", str(signature), "-f", str(signers)]
    name = _output(command).partition("\n")[0]
    if not name:
        by = f"by none of the keys of {signers}, or by one that has expired"
        raise BundleError(f"{bundle}: {signature} is no signature, or {by}")
    command[2] = "verify"
    said = _output([*command, "-I", name, "-n", NAMESPACE], bundle)
    if not (key := re.search(r"SHA256:\S+", said)):
        raise BundleError(f"{bundle}: {signature} is no signature of it by {name}")
    return f"signed by {name} ({key[0]})"


def _output(command: list[str], stdin: Path = Path("/dev/null")) -> str:
    """Return what a command says; nothing if it fails."""
    try:
        with stdin.open("rb") as stream:
            done = subprocess.run(command, stdin=stream, capture_output=True, text=True)
    except FileNotFoundError:
        raise BundleError("ssh-keygen is not installed; it is a part of OpenSSH") from None
    return "" if done.returncode else done.stdout

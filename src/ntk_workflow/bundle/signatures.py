"""Who signed a bundle: detached signatures of OpenSSH, by keys that people have and publish."""

import re
import subprocess
from pathlib import Path

from ntk_conditioning.errors import UserError
from ntk_conditioning.files import require_file

NAMESPACE = "ntk-conditioning"  #: a signature for something else does not count; as in the Makefile


def made_by(bundle: Path, signers: Path | None = None) -> str:
    """Return what a bundle's signature says of its maker, by a file of allowed signers.

    `UserError` if there are ``signers``, and the signature is missing, of other bytes, for
    something else, expired, or by a key that they do not have.
    """
    signature = bundle.with_name(f"{bundle.name}.sig")
    if not signers and signature.is_file():
        return "a signature is beside it, unchecked: verify it with --signers, or SIGNERS=file"
    if not signers:
        return "not signed: whoever holds it could have changed it"
    require_file(signers)
    if not signature.is_file():
        raise UserError(f"{bundle}: not signed, there is no {signature}")
    keygen = ["ssh-keygen", "-s", str(signature), "-f", str(signers), "-Y"]
    answer = subprocess.run([*keygen, "find-principals"], capture_output=True, text=True)
    if answer.returncode:
        by = f"by none of the keys of {signers}, or by one that has expired"
        raise UserError(f"{bundle}: {signature} is no signature, or {by}")
    name = answer.stdout.partition("\n")[0]
    verify = [*keygen, "verify", "-I", name, "-n", NAMESPACE]
    with bundle.open("rb") as stream:
        done = subprocess.run(verify, stdin=stream, capture_output=True, text=True)
    if done.returncode or not (key := re.search(r"SHA256:\S+", done.stdout)):
        raise UserError(f"{bundle}: {signature} is no signature of it by {name}")
    return f"signed by {name} ({key[0]})"

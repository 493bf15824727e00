"""The authority is made once, however many processes of a shared home begin at the same moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from sandbox_runner.egress import authority
from tests import warm

MAKE = """
import sys, time
from pathlib import Path
from sandbox_runner.egress import authority
made = authority._make
def slowly():
    found = made()
    time.sleep(0.3)
    return found
authority._make = slowly
print("ready", flush=True)
sys.stdin.readline()
print(authority.ensure(Path(sys.argv[1])).read_text())
"""


def test_two_processes_at_once_make_one(tmp_path: Path) -> None:
    folder = tmp_path / "egress"
    makers = [
        warm.popen([sys.executable, "-c", MAKE, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    for maker in makers:
        assert maker.stdout is not None
        assert maker.stdout.readline() == "ready\n"
    said = {maker.communicate("\n", timeout=30)[0].strip() for maker in makers}
    assert len(said) == 1
    certificate = x509.load_pem_x509_certificate((folder / authority.CERTIFICATE).read_bytes())
    key = serialization.load_pem_private_key((folder / authority.KEY).read_bytes(), None)
    assert certificate.public_key() == key.public_key()
    assert (folder / authority.KEY).stat().st_mode & 0o777 == 0o600

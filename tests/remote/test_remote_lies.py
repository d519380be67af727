"""Servers that lie: about sizes, names and how much there is. Each lie is an error, at once."""

import multiprocessing
import re
import shutil
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

import roboreel as reel
from roboreel.errors import DatasetError, MirrorError, RemoteError, UnsafePathError
from roboreel.mirror.opening import find_mirror
from tests.factory import write_dataset
from tests.remote.remote_servers import FileServer

pytest.importorskip("obstore")
import huggingface_hub.constants
from obstore.store import HTTPStore

from roboreel.mirror.addresses import parse_address
from roboreel.remote import helper, hub, objects
from roboreel.remote.web import url_of


class Bucket(ThreadingHTTPServer):
    """A bucket that lists more than there is, and sends more than it was asked for."""

    daemon_threads = True

    def __init__(self, root, *, more=(), endless=False, long_bodies=False):
        super().__init__(("127.0.0.1", 0), Answer)
        self.root, self.more, self.endless, self.long_bodies = root, more, endless, long_bodies
        self.pages = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *about):
        """Say nothing of clients that went away."""

    def listing(self) -> bytes:
        files = [path for path in self.root.rglob("*") if path.is_file()]
        entries = [(path.relative_to(self.root).as_posix(), path.stat().st_size) for path in files]
        entries += self.more
        if self.pages:
            entries = [(f"{self.pages}-{number}", 1) for number in range(1000)]
        self.pages += 1
        about = (
            "<IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken>"
            if self.endless
            else "<IsTruncated>false</IsTruncated>"
        )
        rows = (
            f"<Contents><Key>arm/{escape(name)}</Key><Size>{size}</Size><ETag>&quot;e&quot;</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for name, size in entries
        )
        return f"<ListBucketResult>{about}{''.join(rows)}</ListBucketResult>".encode()


class Answer(BaseHTTPRequestHandler):
    server: Bucket
    protocol_version = "HTTP/1.1"

    def log_message(self, *about):
        """Say nothing."""

    def do_GET(self):
        asked = urlsplit(self.path)
        if "list-type" in parse_qs(asked.query):
            self.send_response(200)
            self.finish_with(self.server.listing())
            return
        data = (self.server.root / unquote(asked.path).split("/arm/", 1)[1]).read_bytes()
        first, last = map(int, re.findall(r"\d+", self.headers["Range"]))
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.send_header("ETag", '"e"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        if self.server.long_bodies:
            self.send_header("Content-Length", str(2**40))
            self.end_headers()
            while True:  # until the client has had enough
                self.wfile.write(bytes(2**16))
        self.finish_with(data[first : last + 1])

    def finish_with(self, body: bytes) -> None:
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def root(tmp_path):
    write_dataset(tmp_path / "near" / "arm", [3, 2])
    return tmp_path / "near" / "arm"


@pytest.fixture
def opened(root, tmp_path):
    @contextmanager
    def opened(**lies):
        with Bucket(root, **lies) as server:
            options = {
                "endpoint": f"http://127.0.0.1:{server.server_port}",
                "skip_signature": True,
                "region": "us-east-1",
            }
            try:
                yield reel.open_dataset(
                    "s3://bucket/arm", mirror=tmp_path / "m", storage_options=options
                )
            finally:
                server.shutdown()

    return opened


def test_a_bucket_that_does_not_lie_is_read(opened):
    with opened() as far:
        assert far.read([4])["index"].tolist() == [4]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("../../evil", RemoteError),
        ("/etc/evil", RemoteError),
        ("..\\evil", UnsafePathError),
        ("n" * 300, UnsafePathError),
        ("meta/a\nb", RemoteError),
    ],
)
def test_names_that_lead_elsewhere_or_nowhere(opened, tmp_path, name, error):
    with pytest.raises(error), opened(more=[(name, 4)]):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "near"]
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["lock"]


def test_a_size_that_no_file_has_leaves_no_mirror_behind(opened, tmp_path):
    with pytest.raises(MirrorError, match=r"'huge\.bin'"), opened(more=[("huge.bin", 2**62)]):
        pass
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["lock"]


def test_a_list_without_an_end(opened, monkeypatch):
    monkeypatch.setattr(objects, "_MOST_FILES", 5000)
    with pytest.raises(RemoteError, match="More than 5,000 files"), opened(endless=True):
        pass


def test_a_body_that_is_longer_than_what_was_asked_for(opened):
    said = r"More than the .* bytes asked for"
    with pytest.raises(RemoteError, match=said), opened(long_bodies=True):
        pass


def test_a_web_server_that_finds_every_name(root, tmp_path, monkeypatch):
    page = root / "meta/info.json"
    with FileServer(root.parent) as server:
        monkeypatch.setattr(server, "find", lambda name: page)
        with pytest.raises(RemoteError, match="a page for every name"):
            reel.open_dataset(f"{server.url}/arm", mirror=tmp_path / "m")


@pytest.mark.parametrize(
    ("location", "is_hub"),
    [
        ("https://huggingface.co/a", True),
        ("https://huggingface.co.evil.example/a", False),
        ("https://huggingface.co@evil.example/a", False),
        ("http://huggingface.co/a", False),
    ],
)
def test_the_token_goes_to_the_hub_alone(monkeypatch, location, is_hub):
    sent = {}
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "https://huggingface.co")
    monkeypatch.setattr(HTTPStore, "from_url", lambda location, **options: sent.update(options))
    place = hub._place_of(location, "hush")
    hub._open(place)
    assert (dict(place.headers) == {}) is not is_hub
    assert (sent["client_options"]["default_headers"] == {}) is not is_hub


class RedirectingServer(ThreadingHTTPServer):
    """Sends every request on to another host, and writes down what it was sent."""

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), Redirecting)
        self.target = target
        self.seen: list[dict[str, str]] = []


class Redirecting(BaseHTTPRequestHandler):
    def do_GET(self):
        assert isinstance(self.server, RedirectingServer)
        self.server.seen.append(dict(self.headers.items()))
        self.send_response(302)
        self.send_header("Location", self.server.target + urlsplit(self.path).path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self):
        self.do_GET()

    def log_message(self, *about):
        """Say nothing."""


@contextmanager
def redirecting(target: str):
    server = RedirectingServer(target)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("name", ["X-Api-Key", "Authorization", "Cookie"])
def test_secrets_do_not_follow_a_redirect_to_another_host(root, tmp_path, monkeypatch, name):
    seen, answer = [], FileServer.__init__.__globals__["_Handler"]._answer

    def noting(handler, *, send):
        seen.append(str(handler.headers))
        answer(handler, send=send)

    monkeypatch.setattr(FileServer.__init__.__globals__["_Handler"], "_answer", noting)
    options = {"client_options": {"default_headers": {name: "hush"}}}
    with FileServer(root.parent) as far:
        elsewhere = far.url.replace("127.0.0.1", "localhost")
        with redirecting(elsewhere) as near:
            dataset = reel.open_dataset(
                f"http://127.0.0.1:{near.server_port}/arm?signature=psst",
                mirror=tmp_path / "m",
                storage_options=options,
            )
            local = reel.open_dataset(root)
            assert (dataset.episodes[0]["action"] == local.episodes[0]["action"]).all()
        assert all(headers[name.title()] == "hush" for headers in near.seen)
    assert seen
    assert not [headers for headers in seen if "hush" in headers or "psst" in headers]


def test_a_password_in_an_address_is_no_part_of_the_host_that_is_looked_up():
    found = url_of("https://me:hush@host:8080/arm/?signature=psst", "meta/info.json")
    assert found == "https://host:8080/arm/meta/info.json?signature=psst"


def test_secrets_in_headers_of_an_object_store_are_refused(tmp_path):
    options = {"client_options": {"default_headers": {"x-api-key": "hush"}}, "region": "eu"}
    with pytest.raises(ValueError, match="default_headers of an object store"):
        reel.open_dataset("s3://bucket/arm", mirror=tmp_path / "m", storage_options=options)


def test_a_mirror_that_somebody_sent_calls_nobody(root, tmp_path):
    with FileServer(root.parent) as server:
        far = reel.open_dataset(f"{server.url}/arm", mirror=tmp_path / "m")
        sent = tmp_path / "sent" / far.path.parent.name
        shutil.copytree(far.path.parent, sent)
        server.asked.clear()
        assert find_mirror(sent / "files") is not None
        with pytest.raises(DatasetError, match=f"by its address, '{server.url}/arm'"):
            reel.open_dataset(sent / "files")
        assert server.asked == []


def test_a_helper_connects_anew_for_options_of_the_same_name_and_another_value(monkeypatch):
    class Said:
        """Clients that say what they were connected with."""

        @staticmethod
        def connect(address, options):
            return SimpleNamespace(options=lambda: options), ""

    monkeypatch.setattr(helper, "import_module", lambda _: Said)
    ours, theirs = multiprocessing.Pipe()
    threading.Thread(target=helper.serve, args=(theirs,), daemon=True).start()
    address = parse_address("s3://bucket/arm")
    with ours:
        for token in ("mine", "yours", "mine"):
            ours.send((0, address, {"token": token, "region": "eu"}, ("options",)))
            assert ours.recv() == (0, False, {"token": token, "region": "eu"})

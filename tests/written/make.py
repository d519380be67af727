"""Writes one file or folder of each kind that later versions must read, and packs them.

The archives beside this module were written by the code of commit 0b48690 (November 2026), so that
no change of the code can change them::

    git worktree add ../old 0b48690
    PYTHONPATH=../old/src python tests/written/make.py tests/written

It imports nothing of the tests, since they change with the code. Jobs are made for the very folder
`HOME`; all else can be read anywhere.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from unittest import mock

import numpy as np

import roboreel as reel

HOME = Path("/tmp/roboreel-written")
FPS = 10
FRONT = "observation.images.front"
STATE = "observation.state"
# Whole seconds, as any archive keeps them: 14 November 2026.
TIME_S = 1_794_650_000


def picture(episode, i):
    return np.full((16, 24, 3), (episode * 50 + i * 8) % 240, np.uint8)


def record(root, lengths, store="image", left_open=0, **options):
    """Record episodes, and leave some frames of another one open; return the recorder."""
    features = {STATE: reel.Feature("float32", (3,)), "action": reel.Feature("float64", (2,))}
    features[FRONT] = reel.Feature(store, (16, 24, 3))
    encoding = reel.Encoding("h264") if store == "video" else None
    recorder = reel.create_dataset(root, fps=FPS, features=features, encoding=encoding, **options)
    for episode, length in enumerate([*lengths, left_open]):
        for i in range(length):
            number = episode * 100 + i
            values = {STATE: np.array([number, -number, 0.5], np.float32)}
            values["action"] = np.array([number, 1], np.float64)
            recorder.add_frame({**values, FRONT: picture(episode, i)}, task=f"task {episode % 2}")
        if episode < len(lengths):
            recorder.save_episode(metadata={"operator": "Ann"})
    return recorder


def recorded(root, lengths, store="image", **options):
    """Record a dataset, and return its folder."""
    record(root, lengths, store, **options).close()
    return root


def settle(folder):
    """Give all files times in whole seconds, which other files may note."""
    for path in folder.rglob("*"):
        os.utime(path, (TIME_S, TIME_S), follow_symlinks=False)


def write_undo(home):
    """Two changes that can be undone, and a copy of the dataset as it was before them."""
    from roboreel.edit import edit_dataset

    root = recorded(home / "arm", [3, 4, 5, 6], "video")
    settle(root)
    shutil.copytree(root, home / "before")
    edit_dataset(root).delete([1]).plan().apply()
    edit_dataset(root).trim(0, start=1).set_task([2], "pour").rename("action", "act").plan().apply()


def write_commit(home):
    """Three edits that died: while they prepared, once they had decided, and half carried out."""
    from roboreel.edit import edit_dataset

    root = recorded(home / "before", [3, 4, 5], "video")
    settle(root)
    plan = edit_dataset(shutil.copytree(root, home / "after")).delete([1]).plan()
    plan.apply()
    for call in range(1, 1000, 5):
        died = home / f"died-{call:03}"
        shutil.copytree(root, died)
        plan = edit_dataset(died).delete([1]).plan()
        if not dies_at(call, plan.apply):
            shutil.rmtree(died)
            break


class Died(BaseException):
    """The process has died."""


def dies_at(call, work):
    """Do some work whose n-th change of the disk does not happen; return whether it came to that."""
    left = call

    def counted(real):
        def change(*given, **more):
            nonlocal left
            left -= 1
            if left <= 0:
                raise Died
            return real(*given, **more)

        return change

    names = ("replace", "rename", "link", "unlink", "rmdir", "mkdir")
    patches = [mock.patch.object(os, name, counted(getattr(os, name))) for name in names]
    for patch in patches:
        patch.start()
    try:
        work()
    except Died:
        return True
    finally:
        for patch in patches:
            patch.stop()
    return False


def write_journal(home):
    """Recordings that ended with an open episode: of pictures, and of a video."""
    for store in ("image", "video"):
        record(home / store, [2], store, left_open=7).close()


def write_view(home):
    """A dataset with a saved view."""
    root = recorded(home / "arm", [3, 1, 5, 2])
    settle(root)
    reel.save_view(reel.open_dataset(root).select([0, 2]), "good")


def write_cache(home):
    """A dataset, and a cache of its numbers and pictures."""
    root = recorded(home / "arm", [3, 4, 5])
    settle(root)
    dataset = reel.open_dataset(root)
    dataset.materialize(home / "jpeg", {"*": reel.Jpeg((8, 12), 90)})
    dataset.materialize(home / "raw", {"*": reel.Raw()})


def write_job(home):
    """Jobs of every operation, a third of whose tasks are done."""
    from roboreel.check.check_job import plan_check
    from roboreel.dataset.cache.build_job import plan_build
    from roboreel.dataset.statistics_job import plan_statistics
    from roboreel.edit import edit_dataset, plan_conversion, plan_merge
    from roboreel.edit.edit_job import plan_edit_job
    from roboreel.importing import Changes
    from roboreel.importing import job as importing
    from roboreel.jobs import InProcess, create_job, open_job, run_job

    root = recorded(home / "arm", [3, 4, 5, 6, 7, 8], "video", compact_on_close=False)
    recordings = [write_hdf5(home / f"{name}.hdf5") for name in "abc"]
    settle(home)
    dataset = reel.open_dataset(root)
    edited = edit_dataset(root).reencode(FRONT, reel.Encoding("h264", keyframe_distance=2))
    importing._TASK_BYTES = 1
    plans = {
        "stats": plan_statistics(dataset, images=True, task_s=1e-5),
        "check": plan_check(root, tier="deep", task_s=1e-3),
        "cache": plan_build(dataset, home / "out-cache", {"*": reel.Raw()}, task_s=1e-5),
        "convert": plan_edit_job(
            plan_conversion(root, "v2.1", home / "out-convert"), verify=True, task_s=1e-5
        ),
        "merge": plan_edit_job(plan_merge([root, root], home / "out-merge"), task_s=1e-5),
        "edit": plan_edit_job(edited.plan(home / "out-edit"), task_s=1e-4),
        "import": importing.plan_job(recordings, home / "out-import", None, Changes(fps=10)),
    }
    for name, plan in plans.items():
        job = create_job(home / f"job-{name}", plan)
        run_job(open_job(job.path), InProcess(), shard=(0, 3))
        print(name, len(plan), "tasks", job)


def write_hdf5(path):
    """A recording in the layout of ACT."""
    import h5py

    with h5py.File(path, "w") as file:
        file.attrs["sim"] = False
        file["action"] = np.arange(12, dtype=np.float32).reshape(6, 2)
        file["observations/qpos"] = np.arange(18, dtype=np.float32).reshape(6, 3)
        file["observations/images/front"] = np.stack([picture(0, i) for i in range(6)])
    return path


@contextmanager
def proxy(folder):
    """Serve a folder as http://robots.test, through a proxy: no port becomes part of an address.

    Yields:
        A list of names and ranges that is filled as they are asked for.
    """
    requests = []

    class Handler(SimpleHTTPRequestHandler):
        def do_HEAD(self):
            self.answer(send=False)

        def do_GET(self):
            self.answer(send=True)

        def answer(self, *, send):
            path = folder / self.path.removeprefix("http://robots.test/")
            requests.append((path.name, self.headers.get("Range")))
            data = path.read_bytes() if path.is_file() else b""
            first, last = 0, len(data) - 1
            if asked := self.headers.get("Range"):
                first, last = (int(n) for n in asked.removeprefix("bytes=").split("-"))
            body = data[first : last + 1]
            self.send_response(404 if not path.is_file() else 206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{path.name}-{len(data)}"')
            self.send_header("Last-Modified", self.date_time_string(TIME_S))
            self.end_headers()
            if send:
                self.wfile.write(body)

        def log_message(self, *about):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        with mock.patch.dict(os.environ, {"http_proxy": address, "no_proxy": ""}):
            yield requests
        server.shutdown()


def write_mirror(home):
    """A dataset, and a mirror of it that holds some of its bytes."""
    recorded(home / "arm", [3, 4, 5])
    with proxy(home):
        far = reel.open_dataset("http://robots.test/arm", mirror=home / "mirror")
        far.read(range(3), [STATE])


WRITERS = {
    "cache": write_cache,
    "commit": write_commit,
    "job": write_job,
    "journal": write_journal,
    "mirror": write_mirror,
    "undo": write_undo,
    "view": write_view,
}


def main():
    out = Path(sys.argv[1])
    for name in sys.argv[2:] or WRITERS:
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir()
        WRITERS[name](HOME)
        with tarfile.open(out / f"{name}.tar.xz", "w:xz") as archive:
            # The lock of mirrors also tells whether files can have holes: those of an archive not.
            archive.add(HOME, ".", filter=lambda f: None if f.name == "./mirror/lock" else f)
        print(f"{name}: {(out / f'{name}.tar.xz').stat().st_size:,} bytes")
    shutil.rmtree(HOME)


if __name__ == "__main__":
    main()

"""What every executor of jobs must do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.jobs import create_job, run_job
from tests.jobs.job_operations import squares

if TYPE_CHECKING:
    from roboreel.jobs import Executor
    from roboreel.jobs.running import Outcome


class ExecutorContract:
    """Subclasses say which; a cluster of Ray passes in tests/ray/ray_cases.py."""

    def executor(self) -> Executor:
        raise NotImplementedError

    def test_every_task_that_is_handed_over_ends_once(self, tmp_path):
        job = create_job(tmp_path / "job", squares(5))
        with self.executor().open(job) as session:
            assert session.slots >= 1
            waiting = list(range(5))
            ended: list[Outcome] = []
            while len(ended) < 5:
                while waiting and len(waiting) + len(ended) > 5 - session.slots:
                    session.submit(waiting.pop())
                ended += session.wait()
        assert sorted(outcome.number for outcome in ended) == list(range(5))
        assert [outcome.error for outcome in ended] == [None] * 5
        assert job.done().all()

    def test_a_task_that_fails_ends_with_its_error(self, tmp_path):
        job = create_job(tmp_path / "job", squares(2, fails=[1]))
        with self.executor().open(job) as session:
            session.submit(1)
            (outcome,) = session.wait()
        assert outcome.error == "ValueError: 1 is unlucky"
        assert "Traceback" in outcome.details
        assert job.done().tolist() == [False, False]

    def test_what_is_done_is_not_done_again(self, tmp_path):
        log = tmp_path / "log"
        job = create_job(tmp_path / "job", squares(2, log=str(log)))
        with self.executor().open(job) as session:
            for _ in range(2):
                session.submit(0)
                (outcome,) = session.wait()
                assert outcome.error is None
        assert log.read_text() == "0\n"

    def test_an_interrupt_leaves_a_job_that_can_be_resumed(self, tmp_path):
        job = create_job(tmp_path / "job", squares(3))
        try:
            with self.executor().open(job) as session:
                session.submit(0)
                session.wait()
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            pass
        assert run_job(job, self.executor()).ran == 2
        assert job.commit() == {"sum": 5, "count": 3}

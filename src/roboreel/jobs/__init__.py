"""Long work as a plan of tasks: on all cores, on a cluster or in an array, with the same bytes.

A job knows no operation. To add one, write three things in a module of yours:

* a pure function that makes a `Plan`: options, and columns with a row for each task; `cut` says where
  to cut files and episodes into tasks of about ten seconds;
* ``OPERATION = Operation(run=…, commit=…)``: ``run(task, folder)`` writes files to an empty folder and
  returns a small summary; ``commit(plan, parts)`` joins them, in the order of the plan, and publishes;
* a call of ``execute(plan, on=…)``, which returns what ``commit`` returned.

::

    Plan, Task, cut, target_cost          what there is to do; arithmetic only
    Operation, Part                       how it is done
    execute                               plan → result: resumes, retries, commits, cleans up
    InProcess, Processes, Executor        where tasks run; `roboreel.ray` has one more
    Job, create_job, open_job, run_job    the steps of `execute`, for arrays: one shard each,
    commit_job, list_jobs                 then one commit

Each task writes to a folder of its own, which is synced, gets a list of hashes, and is renamed to its
place. So a task is done or not, whoever runs it, however often, and whatever dies in between.
"""

from roboreel.jobs.cutting import cut, target_cost
from roboreel.jobs.drive import Progress, Report, run_job
from roboreel.jobs.execute import execute
from roboreel.jobs.executor import Executor, InProcess
from roboreel.jobs.home import job_path, list_jobs
from roboreel.jobs.job import Job, Status, commit_job, create_job, open_job, remove_job
from roboreel.jobs.operation import Operation, Part
from roboreel.jobs.places import job_home
from roboreel.jobs.plan import Plan, Task
from roboreel.jobs.processes import Processes

__all__ = [
    "Executor",
    "InProcess",
    "Job",
    "Operation",
    "Part",
    "Plan",
    "Processes",
    "Progress",
    "Report",
    "Status",
    "Task",
    "commit_job",
    "create_job",
    "cut",
    "execute",
    "job_home",
    "job_path",
    "list_jobs",
    "open_job",
    "remove_job",
    "run_job",
    "target_cost",
]

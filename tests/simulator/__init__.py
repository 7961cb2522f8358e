"""One seeded simulation of users, drivers, workers, services, a network and a storage that fails.

A simulation is a day on which much goes wrong, in a fraction of a second. Everything that happens
follows from a number, its seed. It runs the package's own code, unchanged: studies, sessions and
their caches, the SQLite file, drivers, the service with its writer, readers and routes, clients
and workers. It simulates their surroundings: threads, clocks, random numbers, the network, and a
database's server. The method is that of FoundationDB and TigerBeetle: a failure that happened once
can be repeated.

How it runs
    Every thread of every process is a task (a greenlet) in the one thread of the test. Wherever
    another thread could interrupt a thread (a lock, a sleep, a statement of SQL, a commit, a
    request), the scheduler may let another task continue, drawn by the seed. Time is a number
    that advances when no task has anything to do.

What goes wrong
    Processes are killed and started again; Ctrl-C comes before and after commits; statements and
    commits fail, and some commits have an unknown outcome; the file is busy, or locked by another
    program; the disk is full, the server cut off; snapshots are damaged or lost; the clock jumps;
    the network loses, doubles and delays requests and answers; workers hang, die, fail and give
    NaN; users tell twice, late, something else, or about pulls that never existed. Each seed
    draws how often each of these happens, so that some have none of it and some have much. At
    the end nothing fails any more, and all tasks must be able to finish.

What is judged (`judge`)
    - The log is a chain without gaps, with hashes that are computed from their description alone.
    - Everything acknowledged is there, as it was acknowledged. A call that failed and kept nothing
      has left nothing. A call with an unknown outcome is there once and complete, or not at all. A
      repetition under the same key gets the same answer as the first time.
    - A call made after an answer is behind it in the log. In the plain simulations a search also
      finds one order of all calls (`tests/server/histories.py`).
    - Every event of a pull makes sense after the earlier ones, by leases and the clock.
    - `verify()` agrees. The policies of all handles, with snapshots and without, are in the state
      that a replay of the log by hand gives; and so is the final answer.
    - Errors are those of `fairtrial.errors`; when nothing goes wrong the storage raises none.
    - Nobody waits forever.

| module | what is in it |
|---|---|
| `simulation` | the participants, the events, and the end |
| `people` | users, drivers, workers |
| `luck` | what goes wrong, and how often |
| `storage` | the SQLite file and the server of a database, with bad luck |
| `service` | the service and the network in front of it |
| `ledger`, `judge` | what callers saw; whether it agrees with what is left |
| `scheduler`, `standard_library` | tasks, time, and replacements for threads and clocks |
| `faults_of_our_own` | faults in the code that the simulations must find |

To repeat a failure: ``./dev test tests/simulator --seed 1234``. Many at once, without pytest:
``.venv/bin/python -m tests.simulator 0 20000``.

Not simulated: the socket between a driver and workers in other processes
(`tests/study/test_worker_server.py`), the queue of processes in front of a file
(`tests/study/test_turns.py`), loss of power (`tests/study/test_power.py`), and PostgreSQL itself.
The failures that its clients see are simulated; crashes of the real server are in
`tests/study/test_kill.py` and `tests/server/test_kills.py`.
"""

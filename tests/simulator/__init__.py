"""One seeded simulation of users, drivers, workers, services, a network and a storage that fails.

A simulation is a day in which much goes wrong, in a fraction of a second, and all that happens in
it follows from a number, its seed. What is run is the package's own code, unchanged: studies,
sessions and their caches, the SQLite file, drivers, the service with its writer, readers and
routes, clients and workers. What is simulated is what lies around: threads, clocks, random
numbers, the network, and a database's server. The manner is that of FoundationDB and
TigerBeetle: whatever fails once can be made to fail again.

How it runs
    Every thread of every process is a task (a greenlet) in the one thread of the test. Wherever a
    thread could be interrupted by another one (a lock, a sleep, a statement of SQL, a commit, a
    request), the scheduler may let another task go on, drawn by the seed. Time is a number that
    moves on when nobody has anything to do.

What goes wrong
    Processes are killed and started again; Ctrl-C comes before and after commits; statements and
    commits fail, and so do commits of which nobody learns whether they were kept; the file is
    busy, or held by another program; the disk is full, the server cut off; snapshots are damaged
    or lost; the clock jumps; the network loses, doubles and delays requests and answers; workers
    hang, die, fail and give NaN; users tell twice, late, something else, or of pulls that there
    never were. Each seed draws how often what happens, so that some have none of it and some have
    much. In the end all is well again, and everybody must be able to finish.

What is judged (`judge`)
    - The log is a chain without gaps, by hashes that are computed from their description alone.
    - What was acknowledged is there, as it was acknowledged; a call that failed and kept nothing
      has left nothing; one in doubt is there once and whole, or not at all; a repetition under the
      same key is answered as the first time.
    - What was called after an answer is behind it in the log; and in the plain simulations a
      search finds one order of all calls (`tests/server/histories.py`).
    - Every event of a pull makes sense after those before it, by leases and the clock.
    - `verify()` agrees, and the policies of all handles, with snapshots and without, were where a
      replay of the log leads, by hand; and so is the final answer.
    - Errors are those of `fairtrial.errors`, and where all is well the storage raises none.
    - Nobody waits for ever.

| module | what is in it |
|---|---|
| `simulation` | what takes part, what happens, how it ends |
| `people` | users, drivers, workers |
| `luck` | what goes wrong, and how often |
| `storage` | the SQLite file and the server of a database, with bad luck |
| `service` | the service and the network before it |
| `ledger`, `judge` | what callers saw; whether it is what is left |
| `scheduler`, `standard_library` | tasks, time, and what takes the place of threads and clocks |
| `faults_of_our_own` | faults in the code that the simulations have to find |

To repeat a failure: ``./dev test tests/simulator --seed 1234``. Many at once, without pytest:
``.venv/bin/python -m tests.simulator 0 20000``.

What is not simulated: the socket between a driver and workers in other processes
(`tests/study/test_wire.py`), the queue of processes before a file (`tests/study/test_turns.py`),
loss of power (`tests/study/test_power.py`), and PostgreSQL itself: what its clients meet is, and
the real server's crashes are in `tests/study/test_kill.py` and `tests/server/test_kills.py`.
"""

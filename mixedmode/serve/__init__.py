"""The HTTP server of a job: its page, metrics and API, beside a running job or over checkpoint folders.

    access.py     who may send which request: tokens, Host and Origin      pure
    address.py    where to listen, and what that address requires          pure
    documents.py  events and manifests as documents of the API             pure
    graph.py      sources, steps and outputs, and what reads what                            pure
    timeline.py   the phases of a job over time                            pure
    live.py       the observer: what the API knows of a running job
    folders.py    the same, read from checkpoint folders
    metrics.py    Prometheus metrics
    state.py      queryable state as JSON or Arrow;  point_reads.py  many point reads at once
    stream.py     Server-Sent Events
    control.py    savepoint, rescale, pause, resume, stop, drain
    app.py        routes;  guard.py  the checks before them
    protocol.py   limits of connections and of time;  server.py  the thread
    page/         the page: HTML, JavaScript and CSS without a build step
    dashboards/   a Grafana dashboard and alert rules for Prometheus, which monitoring.py writes

The server is an observer of the driver's events. It has a thread of its own, so a slow client does not delay the job.
"""

# A thin front: sets up tox in .venv (nothing global) and calls it. What each target does stands in tox.ini.
# Options:  make demo ARGS="--orders 500000"   make test PYTHON=/opt/python3.12/bin/python3

VENV  := .venv
TOX   := $(VENV)/bin/tox
READY := $(VENV)/.tox-ready
ARGS  :=
# nothing at all without ARGS: an empty `--` would replace the defaults in tox.ini, such as tests/lakehouse
PASSED = $(if $(ARGS),-- $(ARGS))

.PHONY: help demo test tests lakehouse walk lint types services orders bench bench-flink bench-suites soak clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    history, live feed and one job over both, in under 3 minutes"
	@echo "make test    lint, types and tests: what must pass before a change lands"
	@echo "make bench   this program and others on the same data, in turns: table, JSON, charts (ARGS=\"all\")"
	@echo "make bench-flink | bench-suites    the same with Flink, 350 MB more | what is in bench/, as pytest"
	@echo "make services    Kafka and PostgreSQL on this machine, until Ctrl-C; data in run/services"
	@echo "make orders  an example with both, and PostgreSQL's table at the end (docs/tutorial-orders.md)"
	@echo "make soak    kills at every place of an epoch, then a job that is killed every 30 s, for 20 minutes"
	@echo "make lint | types | tests | lakehouse | walk    one part of make test; ARGS=... is passed on"
	@echo "make clean   remove .venv, run and the caches"

demo: $(READY)
	@test -e $(VENV)/bin/mixedmode || ln -sf ../tox/demo/bin/mixedmode $(VENV)/bin/mixedmode
	$(TOX) run -q -e demo $(PASSED)

# The environments are installed side by side, which takes half of the time.
test: $(READY)
	$(TOX) run-parallel --notest --parallel 2 -q -e lint,check,lakehouse
	$(TOX) run -e lint,check,lakehouse

lint types tests lakehouse walk services orders bench bench-flink bench-suites: $(READY)
	$(TOX) run -e $@ $(PASSED)

soak: $(READY)
	$(TOX) run -e lakehouse -- -m soak tests/lakehouse
	$(TOX) run -e $@ $(PASSED)

clean:
	rm -rf $(VENV) run build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks *.egg-info

# The stamp: tox is installed once, and again only when this file changes.
$(READY): Makefile
	@$(FIND_PYTHON) && { test -x $(VENV)/bin/python || "$$python" -m venv $(VENV); }
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'tox>=4.28,<5' 'tox-uv>=1.25,<2'
	@touch $@

# Sets $python to the first candidate that is new enough and can make a virtual environment.
define FIND_PYTHON
python=; old=; bare=; \
for candidate in $(PYTHON) python3 python3.13 python3.12 python3.11 python; do \
  if ! "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
    if "$$candidate" -c 0 >/dev/null 2>&1; then old="$$old $$candidate"; fi; \
  elif ! "$$candidate" -c 'import venv, ensurepip' >/dev/null 2>&1; then bare="$$bare $$candidate"; \
  else python=$$candidate; break; fi; \
done; \
if test -z "$$python"; then \
  echo "make: mixedmode needs Python 3.11 or later with the venv module, and none was found." >&2; \
  if test -n "$$old"; then echo "  too old:       $$old" >&2; fi; \
  if test -n "$$bare"; then echo "  without venv:  $$bare" >&2; fi; \
  echo "  Debian, Ubuntu:  sudo apt-get install python3 python3-venv" >&2; \
  echo "  macOS:           brew install python@3.12" >&2; \
  echo "  or name one:     make PYTHON=/path/to/python3.11" >&2; \
  exit 1; \
fi
endef

# make demo    every figure of config.yaml, from data that need no download
# make report  the demo and one HTML file of it: figures, captions, tables, config, timings
# make test    the test suite
# make lint    formatting, types, workflow lint
# make bench   speed against the peers; writes benchmarks/
# make paper-figures           the figures for a paper: PDFs, captions in LaTeX and Markdown
# make estimate                what remains would take: core-hours, GPU-hours, memory
# make compare A=... B=...     what differs between two runs: folders of results or bundles
# make bundle                  a run as one file that anyone can verify: results/demo/bundle/demo.zip
# make verify BUNDLE=run.zip   check one; RENDER=1 draws its figures again, too
# make slurm-up, slurm-down    a real Slurm of one node on this machine, to try the profile on
# make slurm-soak              an hour of failures of all kinds on one; writes benchmarks/
#
# Each makes .venv when it is missing. Python 3.11 or newer and make are all that is needed.
# Options: PYTHON=python3.12  CORES=2  CONFIG=config/paper.yaml  PROFILE=slurm
#          TARGETS=liu2023relu_fig2, of make estimate

PYTHON ?= python3
CORES ?= all
WORKERS ?= 2
CONFIG ?=
PROFILE ?=
TARGETS ?=
BUNDLE ?=
RENDER ?=

SHELL := bash
.DEFAULT_GOAL := help
VENV := .venv
READY := $(VENV)/.installed
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
unexport PYTHONPATH

.PHONY: help demo paper-figures report test lint bench estimate compare bundle verify slurm-up slurm-down \
  slurm-soak lock clean

help:
	@sed -n 's/^# \{0,1\}//; /^make/p; /^Each/,/^Options/p' $(firstword $(MAKEFILE_LIST)) | head -19

$(READY): envs/torch.txt envs/requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is $$($(PYTHON) --version 2>&1); Python 3.11 or newer is needed: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	python -m pip install --quiet --disable-pip-version-check -r envs/torch.txt
	python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/requirements.lock
	@touch $@

demo: $(READY)
	snakemake --cores $(CORES) $(if $(CONFIG),--configfile $(CONFIG))
	@echo; echo "Figures:"; find results/*/figures -name '*.png' | sort | sed 's/^/  /'

paper-figures: $(READY)
	snakemake --cores $(CORES) collect_paper_figures $(if $(CONFIG),--configfile $(CONFIG))
	@echo; ls -d results/*/paper/* | sed 's/^/  /'

report: $(READY)
	snakemake report --cores $(CORES) $(if $(CONFIG),--configfile $(CONFIG))
	@echo; echo "Report:"; ls results/*/report.html | sed 's/^/  /'

# There is one cluster on a machine, so its tests run one by one.
test: $(READY)
	python -m pytest -n $(WORKERS) --dist loadgroup --ignore tests/slurm
	python -m pytest tests/slurm

lint: $(READY)
	ruff check .
	ruff format --check .
	mypy
	snakefmt --check Snakefile rules
	snakemake --lint

bench: $(READY)
	python -m benchmarks

estimate: $(READY)
	@PYTHONPATH=src python scripts/estimate_costs.py $(TARGETS) $(if $(PROFILE),--profile $(PROFILE)) \
	  $(if $(CONFIG),--configfile $(CONFIG))

# That two runs differ is an answer and no failure.
compare: $(READY)
	@python scripts/compare_runs.py "$(A)" "$(B)" || test $$? = 1

bundle: $(READY)
	snakemake bundle --cores $(CORES) $(if $(CONFIG),--configfile $(CONFIG))
	@echo; echo "Bundles:"; find results/*/bundle -name '*.zip' | sort | sed 's/^/  /'

verify: $(READY)
	@test -n "$(BUNDLE)" || { echo "which bundle? make verify BUNDLE=results/demo/bundle/demo.zip"; exit 2; }
	python scripts/verify_bundle.py "$(BUNDLE)" $(if $(RENDER),--render)

slurm-up slurm-down: slurm-%: $(READY)
	python -m tests.slurm.cluster $*

slurm-soak: $(READY)
	python -m tests.slurm.soak

# Needs uv; resolves for every platform and Python version at once.
lock: envs/requirements.in
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header \
	  --output-file envs/requirements.lock envs/requirements.in

clean:
	rm -rf $(VENV) .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis

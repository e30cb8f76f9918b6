# make demo                    draw every figure, from data that need no download
# make first-look              Figures 1 and 2 of liu2023relu on digits, within a minute
# make report                  the demo and one HTML file with its findings, figures, tables, config and timings
# make paper-figures           figures for a paper: PDFs, captions in LaTeX and Markdown
# make estimate TARGETS=...    what remains would take, by default of the whole run; PROFILE=slurm: what is submitted
# make advice DATA=my.csv      what to normalise, how deep and how wide, for your data; LABELS=column
# make compare A=... B=...     compare two runs: folders of results, or bundles
# make bundle                  pack a run into one verifiable file; SIGN=~/.ssh/id_ed25519 also signs it
# make verify BUNDLE=run.zip   verify a bundle; RERUN=1 also makes tables and figures again from its rows,
#                              RECOMPUTE=20 also 20 files of rows, SIGNERS=file says who may have signed it
# make test                    the test suite, without Slurm and the browser
# make test-slurm              tests on a real one-node Slurm, started on this machine
# make test-browser            tests of the report in a real browser
# make lint                    formatting, types, order of imports, workflow lint, budgets of lines
# make docs                    the documentation as a site that works offline: site/index.html
# make document-tables         rewrite the columns in results/README.md from the tables' declarations
# make bench                   benchmarks against other packages; writes benchmarks/
# make slurm-up, slurm-down    start and stop a real one-node Slurm on this machine
# make lock                    resolve the requirements in envs/ into their locks; needs uv
#
# Each makes .venv first if it is missing, docs its own .venv-docs. Python 3.11 or newer and make are
# all that is needed.
# Options: PYTHON=python3.12  CORES=2  CONFIG="config/paper.yaml mine.yaml"  VERBOSE=1

PYTHON ?= python3
CORES ?= all
WORKERS ?= 2
# Which tests `make test` runs: with none, also Slurm's and the browser's, on the same finished run.
MARKERS ?= not browser and not slurm
# As the shell takes them, apostrophes included.
CONFIGS = $(foreach file,$(CONFIG),'$(subst ','\'',$(file))')
# The run's name is the last one that a config gives.
RUN = $(shell sed -n "s/^run: *[\"']*\([^ \"']*\).*/\1/p" config.yaml $(CONFIGS) | tail -1)

SHELL := bash
.DEFAULT_GOAL := help
VENV := .venv
DOCS := .venv-docs
# What runs is installed, and on top of it tests and gates.
READY := $(VENV)/.installed
DEVELOP := $(VENV)/.develop
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
unexport PYTHONPATH PYTHONDONTWRITEBYTECODE

$(foreach file,$(CONFIG),$(if $(wildcard $(file)),,$(error no config file $(file); a name with spaces: snakemake --configfile)))

.PHONY: help demo first-look paper-figures report advice test test-slurm test-browser lint docs bench estimate \
  compare bundle verify document-tables slurm-up slurm-down lock clean

help:
	@sed -n '/^$$/q; s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

PIP = $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile
define new-environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "$(PYTHON) is $$($(PYTHON) --version 2>&1); Python 3.11 or newer is needed: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
$(PYTHON) -m venv $(@D)
endef

# What is imported is compiled then, and kept; pip would compile five times as many modules.
# The package itself is installed as a link to src/, for notebooks and scripts outside the workflow.
$(READY): envs/torch.txt envs/run.lock pyproject.toml
	$(new-environment)
	$(PIP) --require-hashes -r envs/run.lock
	$(PIP) -r envs/torch.txt
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(DEVELOP): envs/develop.lock $(READY)
	$(PIP) --require-hashes -r envs/develop.lock
	@touch $@

# Snakemake names neither file nor line of a config that is not YAML.
CHECKED = $(if $(CONFIG),python -m ntk_workflow.config $(CONFIGS))

# A line for each job as it ends: src/snakemake_logger_plugin_console.
CONSOLE = $(if $(VERBOSE),,--logger console)
CONFIGFILE = $(if $(CONFIG),--configfile $(CONFIGS))
# $(call where,Figures,figures) says where a part of the run is, if the run has it.
where = @test ! -e "results/$(RUN)/$2" || echo "$1: results/$(RUN)/$2"

demo: $(READY)
	@$(CHECKED)
	snakemake $(CONSOLE) --cores $(CORES) $(CONFIGFILE)
	$(call where,Figures,figures)
	$(call where,Claims,claims.html)
	$(call where,Explorer,explorer.html)

first-look: $(READY)
	snakemake $(CONSOLE) --cores $(CORES) liu2023relu_fig1 liu2023relu_fig2 \
	  --configfile config/first_look.yaml
	@echo "Figures:"; find results/first_look/figures -name '*.png' | sort | sed 's/^/  /'

paper-figures: $(READY)
	@$(CHECKED)
	snakemake $(CONSOLE) --cores $(CORES) collect_paper_figures $(CONFIGFILE)
	$(call where,Figures and captions,paper)

report: $(READY)
	@$(CHECKED)
	snakemake $(CONSOLE) --cores $(CORES) $(CONFIGFILE)
	snakemake $(CONSOLE) --report results/$(RUN)/report.html $(CONFIGFILE)
	$(call where,Report,report.html)

# A worker takes a module at a time; the first makes the run that others look at.
test: $(DEVELOP)
	python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder -m "$(MARKERS)" \
	  $(PYTEST_ARGS) tests src

test-slurm: $(DEVELOP)
	python -m pytest tests/slurm $(PYTEST_ARGS)

test-browser: $(DEVELOP)
	python -m pytest -m browser tests/workflow $(PYTEST_ARGS)

lint: $(DEVELOP)
	ruff check .
	ruff format --check .
	PYTHONPATH=src lint-imports
	mypy
	snakefmt --check Snakefile rules
	snakemake --lint
	python -m tests.support.plain_words
	python -m tests.support.count_lines

# Reads the package without importing it, so its environment has no torch. --strict: no broken link.
docs: $(DOCS)/.installed
	@PYTHONPATH=src NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --config-file docs/mkdocs.yml
	@echo "Documentation: site/index.html"

$(DOCS)/.installed: envs/docs.lock
	$(new-environment)
	$(PIP) --require-hashes -r envs/docs.lock
	@touch $@

bench: $(DEVELOP)
	python -m benchmarks

estimate: $(READY)
	@$(CHECKED)
	@PYTHONPATH=src python scripts/estimate_costs.py $(TARGETS) $(if $(PROFILE),--profile $(PROFILE)) \
	  $(CONFIGFILE)

# Named after the file; CORES as for other targets.
ADVISED = $(shell file=$$(basename "$(DATA)"); echo "$${file%.*}")
advice: $(READY)
	@test -n "$(DATA)" || { echo "on which data? make advice DATA=my.csv LABELS=column"; exit 2; }
	@mkdir -p results/advice
	@PYTHONPATH=src python scripts/advise_dataset.py --data "$(DATA)" --dataset "$(ADVISED)" \
	  $(if $(LABELS),--labels "$(LABELS)") --threads $(if $(filter all,$(CORES)),$$(nproc),$(CORES)) \
	  --output "results/advice/$(ADVISED).parquet" --page "results/advice/$(ADVISED).html"
	@echo "Advice: results/advice/$(ADVISED).html"

# compare_runs.py exits with 1 if the runs differ, which is no failure here.
compare: $(READY)
	@test -n "$(A)" -a -n "$(B)" || { echo "which runs? make compare A=results/demo B=results/laptop"; exit 2; }
	@PYTHONPATH=src python scripts/compare_runs.py "$(A)" "$(B)" || test $$? = 1

bundle: $(READY)
	@$(CHECKED)
	snakemake bundle $(CONSOLE) --cores $(CORES) $(CONFIGFILE)
	$(if $(SIGN),rm -f "results/$(RUN)/bundle/$(RUN).zip.sig"; \
	  ssh-keygen -Y sign -n ntk-conditioning -f "$(patsubst ~/%,$(HOME)/%,$(SIGN))" "results/$(RUN)/bundle/$(RUN).zip")
	$(call where,Bundle,bundle/$(RUN).zip)

verify: $(READY)
	@test -n "$(BUNDLE)" || { echo "which bundle? make verify BUNDLE=results/demo/bundle/demo.zip"; exit 2; }
	PYTHONPATH=src python scripts/verify_bundle.py "$(BUNDLE)" $(if $(RERUN),--rerun) \
	  $(if $(RECOMPUTE),--recompute $(RECOMPUTE)) \
	  $(if $(SIGNERS),--signers "$(SIGNERS)")

document-tables: $(DEVELOP)
	PYTHONPATH=src:scripts python -m docs.build tables

slurm-up slurm-down: slurm-%: $(DEVELOP)
	python -m tests.slurm.cluster $*

# Needs uv; resolves for every platform and Python version at once. The smaller sets have the
# versions of the largest.
lock: lock-develop lock-run lock-docs

lock-run: lock-develop
lock-run: private CONSTRAINT = --constraint envs/develop.lock
lock-%: envs/%.in
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header $(CONSTRAINT) \
	  --output-file envs/$*.lock $<

clean:
	rm -rf $(VENV) $(DOCS) site .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The two commands of the README, and the others. Each does its own set-up, says what it installs, and is quick the
# second time. Everything made here lies in build/, dist/ and .venv/.

PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV := .venv
PY := $(VENV)/bin/python
# `make demo DATA=folder` runs the demo on that folder of photos.
DATA ?=
export DATA
# `make docs PHOTO=file` shows what operators do with that photo.
PHOTO ?=
export PHOTO

.PHONY: help demo test test-all bench lint docs wheel clean setup setup-test setup-docs setup-wheel

help:
	@echo 'make demo [DATA=folder]  pack photos, train on them, compare with torch DataLoader, draw what the model saw'
	@echo 'make test                what every change passes: tests in C under ASan and UBSan, in Python, layers, lint'
	@echo 'make test-all            that, and every deep shard that has not passed with the files as they are'
	@echo 'make bench               ratios against numpy and torch on this machine'
	@echo 'make lint                formatting, types, layers'
	@echo 'make docs [PHOTO=file]   the documentation site in build/site, with manual pages and shell completion'
	@echo 'make wheel               a wheel in dist/ that carries its libraries'
	@echo 'make clean               remove build/, dist/ and .venv/'

setup:
	@tools/setup.sh run $(PYTHON) '$(TORCH)'

setup-test:
	@tools/setup.sh test $(PYTHON) '$(TORCH)'

setup-docs:
	@tools/setup.sh docs $(PYTHON) '$(TORCH)'

setup-wheel:
	@tools/setup.sh wheel $(PYTHON) '$(TORCH)'

demo: setup
	@$(PY) examples/demo.py $(if $(DATA),"$$DATA")

test: setup-test
	@$(PY) tools/check.py

test-all: setup-test
	@$(PY) tools/check.py --all

bench: setup
	@$(PY) bench/run.py

lint: setup-test
	@$(PY) tools/check.py --only layers lint

docs: setup-docs
	@$(PY) tools/site.py $(if $(PHOTO),--photo "$$PHOTO")

wheel: setup-wheel
	@$(PY) tools/check.py --only wheel

clean:
	rm -rf build dist $(VENV)

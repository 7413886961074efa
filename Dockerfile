# Needs BuildKit (Docker 23 or newer has it on), or podman build --format docker.
# To pin the base image, name its digest as well:
#   docker build --build-arg BASE=docker.io/library/python:3.13.14-slim-bookworm@sha256:... .
ARG BASE=docker.io/library/python:3.13.14-slim-bookworm

FROM ${BASE} AS build
# Each build installs the same bytes with the same timestamps. `make image` also gives this time to
# BuildKit, which then sets it for the image and for the folders that the steps create.
ARG SOURCE_DATE_EPOCH=1767225600
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} \
    PYTHONHASHSEED=0 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
# Only wheels, each with a hash from the lock: nothing is compiled, so there is no compiler.
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m venv --without-pip /opt/replay \
    && pip --python /opt/replay/bin/python install --no-compile \
        --only-binary=:all: --require-hashes --requirement requirements.lock \
    && python -m venv --without-pip /opt/backend \
    && pip --python /opt/backend/bin/python install --no-compile \
        --only-binary=:all: --require-hashes --requirement requirements-build.lock
COPY pyproject.toml build_metadata.py build_version.py README.md CHANGELOG.md LICENSE ./
COPY proxy proxy
# Part of the version. A release has none; with another build:
#   docker build --build-arg COMMIT="g$(git rev-parse --short HEAD)" .
ARG COMMIT=source
# Bytecode that does not depend on the source's timestamp: it is valid in every layer and copy.
RUN --mount=type=cache,target=/root/.cache/pip \
    BUILD_COMMIT="${COMMIT}" pip --python /opt/backend/bin/python wheel --no-deps --no-index --no-build-isolation \
        --wheel-dir /wheels . \
    && pip --python /opt/replay/bin/python install --no-compile \
        --no-deps --no-index /wheels/*.whl \
    && pip --python /opt/replay/bin/python check \
    && python -m compileall -q -f --invalidation-mode unchecked-hash /opt/replay/lib \
    && find /opt/replay -exec touch --no-dereference --date "@${SOURCE_DATE_EPOCH}" {} +

FROM ${BASE}
ARG BASE
LABEL org.opencontainers.image.title="Reasoning Replay" \
      org.opencontainers.image.description="Reverse proxy that injects the reasoning a client dropped, for the Responses API, Chat Completions, Anthropic Messages and Gemini" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.base.name="${BASE}"
ENV PATH=/opt/replay/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    XDG_STATE_HOME=/dev/null \
    REPLAY_LISTEN=0.0.0.0:8080 \
    REPLAY_ADMIN_LISTEN=0.0.0.0:9090
COPY --from=build /opt/replay /opt/replay
# An empty volume that is mounted here takes this owner, so that sqlite:// works in a named volume.
RUN install --directory --mode=0700 --owner=65532 --group=65532 /var/lib/replay
# A number, so that Kubernetes can see that it is not root. Another one needs a folder of its own for sqlite://.
USER 65532:65532
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
# The health check uses the port in REPLAY_ADMIN_LISTEN. If a flag or a file sets another port, pass
# that flag, or --config, as well: docker run --health-cmd "reasoning-replay health --config /etc/replay.yaml"
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["reasoning-replay", "health"]
ENTRYPOINT ["reasoning-replay"]
CMD ["serve"]
